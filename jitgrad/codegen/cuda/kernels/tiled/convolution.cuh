// Convolutions as products w @ columns whose columns are never in memory, by tensor cores: see convolution.py.
//
// A block has ROWS outputs at PIXELS places, which may be several images'. Of the inner axis, (channel, *kernel), DEEP
// come at a time, in two stages of shared memory. A thread has one place: it gathers what the next stage needs while
// this one is multiplied. Where an element of the inner axis lies in the image is found once for a block (`jg_tap`),
// where a place lies once for a thread.

template <int RANK> struct alignas(16) jg_tap { i64 offset; int at[RANK]; };
template <int RANK> JG_DEVICE jg_tap<RANK> jg_whole(const jg_tap<RANK>* p) {  // as few accesses as there can be
    union { uint4 words[sizeof(jg_tap<RANK>) / 16]; jg_tap<RANK> tap; } u;
    #pragma unroll
    for (int i = 0; i < (int)(sizeof(jg_tap<RANK>) / 16); i++) u.words[i] = ((const uint4*)p)[i];
    return u.tap;
}

// a convolution of images of T: sizes, strides of x in elements; `outputs`, `channels` of one group
template <class T, int RANK> struct jg_convolution {
    const T *x, *w;
    T* y;
    i64 images, groups, channels, outputs;
    i64 size[RANK], kernel[RANK], count[RANK], stride[RANK], padding[RANK], dilation[RANK];
    i64 image, channel, step[RANK];
};

// rows `first`... of w, their elements from k on, as a tile of R rows; zeros outside
template <int R, int D, class T>
JG_DEVICE void jg_weight_tile(u32 at, const T* w, i64 rows, i64 depth, i64 first, i64 k, bool by_pieces) {
    #pragma unroll 1
    for (int i = (int)threadIdx.x; i < R * (D / 8); i += blockDim.x) {
        const int row = i / (D / 8), c = i % (D / 8);
        const i64 left = first + row < rows ? depth - k - c * 8 : 0;
        const T* const from = w + (first + row) * depth + k + c * 8;
        const u32 piece = at + jg_piece<D>(row, c);
        if (by_pieces) {
            jg_copy_async(piece, left > 0 ? from : w, left > 0);
            continue;
        }
        u32 words[4];
        #pragma unroll
        for (int e = 0; e < 8; e += 2)
            words[e / 2] = jg_bits_if(from + e, e < left) | jg_bits_if(from + e + 1, e + 1 < left) << 16;
        uint4 all = {words[0], words[1], words[2], words[3]};
        jg_shared[piece / 16] = all;
    }
}

// where elements k... of the inner axis lie, as seen from a place's first; what is behind the end is in no image
template <int DEEP, class T, int RANK>
JG_DEVICE void jg_taps(jg_tap<RANK>* taps, const jg_convolution<T, RANK>& c, i64 depth, i64 k) {
    if (threadIdx.x >= DEEP) return;
    i64 left = k + threadIdx.x;
    jg_tap<RANK> tap = {};
    if (left < depth) {
        #pragma unroll
        for (int a = RANK - 1; a >= 0; a--) {
            const i64 rest = jg_over(left, c.kernel[a]), far = (left - rest * c.kernel[a]) * c.dilation[a];
            tap.at[a] = (int)far;
            tap.offset += far * c.step[a];
            left = rest;
        }
        tap.offset += left * c.channel;
    } else {
        tap.at[0] = (int)0x80000000;
    }
    taps[threadIdx.x] = tap;
}

template <class T, int RANK, int ROWS>
JG_DEVICE void jg_convolve(const jg_convolution<T, RANK>& c) {
    constexpr int PIXELS = 128, DEEP = 32, ACROSS = ROWS > 64 ? 2 : 1, M = ROWS / 16 / ACROSS, N = PIXELS / 4 / 8;
    constexpr int OWN = DEEP / ACROSS;  // elements of its place that a thread gathers for a stage
    constexpr u32 W = ROWS * DEEP * 2, X = PIXELS * DEEP * 2, TAPS = 2 * (W + X);
    constexpr u32 PLACES = TAPS + 2 * DEEP * sizeof(jg_tap<RANK>);
    const int lane = threadIdx.x & 31, warp = (int)(threadIdx.x >> 5);
    const int pixel = (int)threadIdx.x % PIXELS, own = (int)threadIdx.x / PIXELS * OWN;
    const T zero = T();
    i64 depth = c.channels, plane = 1;
    #pragma unroll
    for (int a = 0; a < RANK; a++) {
        depth *= c.kernel[a];
        plane *= c.count[a];
    }
    // neighbours in the grid have the same places, of the same images
    const i64 parts = jg_parts(c.outputs, ROWS), grouped = jg_over(blockIdx.x, parts);
    const i64 rest = jg_over(grouped, c.groups), group = grouped - rest * c.groups;
    const i64 first = (blockIdx.x - grouped * parts) * ROWS, total = c.images * plane;
    const T* const w = c.w + group * c.outputs * depth;
    const bool by_pieces = depth % 8 == 0 && jg_aligned<8>(w);
    jg_tap<RANK>* const taps = (jg_tap<RANK>*)((char*)jg_shared + TAPS);
    i64* const places = (i64*)((char*)jg_shared + PLACES);

    // the thread's place: where its window begins, which may be outside of the image
    const T* x = c.x;
    u32 start[RANK];
    {
        i64 left = rest * PIXELS + pixel, place = -1;
        const bool live = left < total;
        if (live) {
            const i64 n = jg_over(left, plane);
            left -= n * plane;
            place = (n * c.groups + group) * c.outputs * plane + left;
            x += n * c.image + group * c.channels * c.channel;
        }
        #pragma unroll
        for (int a = RANK - 1; a >= 0; a--) {
            const i64 outer = jg_over(left, c.count[a]);
            const i64 from = (left - outer * c.count[a]) * c.stride[a] - c.padding[a];
            start[a] = live ? (u32)from : 0xc0000000u;
            x += live ? from * c.step[a] : 0;
            left = outer;
        }
        if (own == 0) places[pixel] = place;
        jg_here(x);
    }
    u32 gathered[OWN / 2];
    auto gather = [&](int stage) {
        const jg_tap<RANK>* const from = taps + stage * DEEP + own;
        #pragma unroll
        for (int k = 0; k < OWN; k++) {
            const jg_tap<RANK> tap = jg_whole(from + k);
            bool inside = true;
            #pragma unroll
            for (int a = 0; a < RANK; a++) inside &= start[a] + (u32)tap.at[a] < (u32)c.size[a];
            const u32 bits = jg_bits_if(x + tap.offset, inside);
            gathered[k / 2] = k % 2 ? gathered[k / 2] | bits << 16 : bits;
        }
    };
    auto store = [&](int stage) {
        #pragma unroll
        for (int p = 0; p < OWN / 8; p++) {
            uint4 all = {gathered[4 * p], gathered[4 * p + 1], gathered[4 * p + 2], gathered[4 * p + 3]};
            jg_shared[(2 * W + stage * X + jg_piece<DEEP>(pixel, own / 8 + p)) / 16] = all;
        }
    };
    float sums[M][N][4];
    jg_clear(sums);
    jg_taps<DEEP>(taps, c, depth, 0);
    __syncthreads();
    gather(0);
    jg_weight_tile<ROWS, DEEP>(0, w, c.outputs, depth, first, 0, by_pieces);
    jg_commit();
    store(0);
    jg_taps<DEEP>(taps + DEEP, c, depth, DEEP);
    jg_arrived<0>();
    __syncthreads();
    const int tiles = (int)jg_parts(depth, DEEP), row = warp / 4 * 16 * M;
    for (int t = 0; t < tiles; t++) {
        const int here = t & 1, there = 1 - here;
        const bool more = t + 1 < tiles;
        if (more) {
            gather(there);
            jg_weight_tile<ROWS, DEEP>(there * W, w, c.outputs, depth, first, (i64)(t + 1) * DEEP, by_pieces);
        }
        jg_commit();
        jg_by_rows<DEEP, M, N>(sums, here * W, row, 2 * W + here * X + warp % 4 * (N * 8 * DEEP * 2), zero);
        if (more) {
            store(there);
            jg_taps<DEEP>(taps + here * DEEP, c, depth, (i64)(t + 2) * DEEP);
        }
        jg_arrived<0>();
        __syncthreads();
    }
    #pragma unroll
    for (int n = 0; n < N; n++) {
        const i64* const two = places + warp % 4 * (N * 8) + n * 8 + lane % 4 * 2;
        const i64 one = two[0], other = two[1];
        #pragma unroll
        for (int m = 0; m < M; m++)
            #pragma unroll
            for (int h = 0; h < 2; h++) {
                const i64 o = first + row + m * 16 + lane / 4 + h * 8;
                if (o >= c.outputs || one < 0) continue;
                T* const p = c.y + one + o * plane;
                const u32 both = jg_pair(sums[m][n][2 * h], sums[m][n][2 * h + 1], zero);
                if (other == one + 1 && jg_aligned<2>(p)) {
                    *(u32*)p = both;
                    continue;
                }
                p->bits = (unsigned short)both;
                if (other >= 0) c.y[other + o * plane].bits = (unsigned short)(both >> 16);
            }
    }
}
