// Convolutions as products w @ columns, gradients of weights as y @ columns^T, by tensor cores, whose columns are never
// in memory: see convolution.py.
//
// The inner axis of a product comes DEEP elements at a time, in two stages of shared memory: threads gather what the
// next stage needs while this one is multiplied. A thread gathers at one place at a time. Rows of columns are
// (channel, *kernel); where one of them lies in the image is found once for a block (`jg_tap`).

template <int RANK> struct alignas(16) jg_tap { i64 offset; int at[RANK]; };
template <int RANK> JG_DEVICE jg_tap<RANK> jg_whole(const jg_tap<RANK>* p) {  // as few accesses as there can be
    union { uint4 words[sizeof(jg_tap<RANK>) / 16]; jg_tap<RANK> tap; } u;
    #pragma unroll
    for (int i = 0; i < (int)(sizeof(jg_tap<RANK>) / 16); i++) u.words[i] = ((const uint4*)p)[i];
    return u.tap;
}

// a convolution of images of T: sizes, strides of x and of y in elements; `outputs`, `channels` of one group
template <class T, int RANK> struct jg_convolution {
    const T* x;
    i64 images, groups, channels, outputs;
    i64 size[RANK], kernel[RANK], count[RANK], stride[RANK], padding[RANK], dilation[RANK];
    i64 image, channel, step[RANK], result, output, place[RANK];
};

template <int RANK> JG_DEVICE i64 jg_times(i64 n, const i64 (&sizes)[RANK]) {
    #pragma unroll
    for (int a = 0; a < RANK; a++) n *= sizes[a];
    return n;
}

// rows `first`... of w or of an image's results, their elements from k on, as a tile of R rows; zeros outside
template <int R, int D, class T>
JG_DEVICE void jg_row_tile(u32 at, const T* w, i64 rows, i64 depth, i64 first, i64 k, bool by_pieces) {
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

// where rows k... of columns lie, as seen from a place's first; what is behind the end is in no image
template <int COUNT, class T, int RANK>
JG_DEVICE void jg_taps(jg_tap<RANK>* taps, const jg_convolution<T, RANK>& c, i64 depth, i64 k) {
    if (threadIdx.x >= COUNT) return;
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

// where the window of a place of an image begins, which may be outside of it; what is no place sees nothing. Where the
// place lies in the results
template <class T, int RANK>
JG_DEVICE i64 jg_window(const jg_convolution<T, RANK>& c, i64 place, bool live, const T*& x, u32 (&start)[RANK]) {
    i64 found = 0;
    #pragma unroll
    for (int a = RANK - 1; a >= 0; a--) {
        const i64 outer = jg_over(place, c.count[a]), index = place - outer * c.count[a];
        const i64 from = index * c.stride[a] - c.padding[a];
        start[a] = live ? (u32)from : 0xc0000000u;
        x += live ? from * c.step[a] : 0;
        found += index * c.place[a];
        place = outer;
    }
    jg_here(x);
    return found;
}

// a window's elements at COUNT taps, in pairs; zeros outside of the image
template <int COUNT, class T, int RANK>
JG_DEVICE void jg_gather(u32 (&found)[COUNT / 2], const jg_convolution<T, RANK>& c, const T* x,
                         const u32 (&start)[RANK], const jg_tap<RANK>* taps) {
    #pragma unroll
    for (int k = 0; k < COUNT; k++) {
        const jg_tap<RANK> tap = jg_whole(taps + k);
        bool inside = true;
        #pragma unroll
        for (int a = 0; a < RANK; a++) inside &= start[a] + (u32)tap.at[a] < (u32)c.size[a];
        const u32 bits = jg_bits_if(x + tap.offset, inside);
        found[k / 2] = k % 2 ? found[k / 2] | bits << 16 : bits;
    }
}

// y = w @ columns. A block has ROWS outputs at PIXELS places, which may be several images'; where a place lies is found
// once for a thread. The inner axis are rows of columns.
template <class T, int RANK, int ROWS>
JG_DEVICE void jg_convolve(const jg_convolution<T, RANK>& c, const T* w, T* y) {
    constexpr int PIXELS = 128, DEEP = 32, ACROSS = ROWS > 64 ? 2 : 1, M = ROWS / 16 / ACROSS, N = PIXELS / 4 / 8;
    constexpr int OWN = DEEP / ACROSS;  // elements of its place that a thread gathers for a stage
    constexpr u32 W = ROWS * DEEP * 2, X = PIXELS * DEEP * 2, TAPS = 2 * (W + X);
    constexpr u32 PLACES = TAPS + 2 * DEEP * sizeof(jg_tap<RANK>);
    const int lane = threadIdx.x & 31, warp = (int)(threadIdx.x >> 5);
    const int pixel = (int)threadIdx.x % PIXELS, own = (int)threadIdx.x / PIXELS * OWN;
    const T zero = T();
    const i64 depth = jg_times(c.channels, c.kernel), plane = jg_times(1, c.count);
    // neighbours in the grid have the same places, of the same images
    const i64 parts = jg_parts(c.outputs, ROWS), grouped = jg_over(blockIdx.x, parts);
    const i64 rest = jg_over(grouped, c.groups), group = grouped - rest * c.groups;
    const i64 first = (blockIdx.x - grouped * parts) * ROWS, total = c.images * plane;
    w += group * c.outputs * depth;
    const bool by_pieces = depth % 8 == 0 && jg_aligned<8>(w);
    jg_tap<RANK>* const taps = (jg_tap<RANK>*)((char*)jg_shared + TAPS);
    i64* const places = (i64*)((char*)jg_shared + PLACES);

    const T* x = c.x;
    u32 start[RANK];
    {
        i64 left = rest * PIXELS + pixel, place = 0;
        const bool live = left < total;
        if (live) {
            const i64 n = jg_over(left, plane);
            left -= n * plane;
            place = n * c.result + group * c.outputs * c.output;
            x += n * c.image + group * c.channels * c.channel;
        }
        place += jg_window(c, left, live, x, start);
        if (own == 0) places[pixel] = live ? place : -1;
    }
    u32 gathered[OWN / 2];
    auto gather = [&](int stage) { jg_gather<OWN>(gathered, c, x, start, taps + stage * DEEP + own); };
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
    jg_row_tile<ROWS, DEEP>(0, w, c.outputs, depth, first, 0, by_pieces);
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
            jg_row_tile<ROWS, DEEP>(there * W, w, c.outputs, depth, first, (i64)(t + 1) * DEEP, by_pieces);
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
                T* const p = y + one + o * c.output;
                const u32 both = jg_pair(sums[m][n][2 * h], sums[m][n][2 * h + 1], zero);
                if (other == one + 1 && jg_aligned<2>(p)) {
                    *(u32*)p = both;
                    continue;
                }
                p->bits = (unsigned short)both;
                if (other >= 0) y[other + o * c.output].bits = (unsigned short)(both >> 16);
            }
    }
}

// sums = y @ columns^T, of the places of one of `parts` parts. A block has ROWS outputs, COLUMNS rows of columns. The
// inner axis are places, of one image at a time: a warp's lanes have one each, anew for each stage.
template <class T, int RANK, int ROWS>
JG_DEVICE void jg_convolve_weight(const jg_convolution<T, RANK>& c, float* sums, const T* y, i64 parts) {
    constexpr int COLUMNS = 64, DEEP = 32, ACROSS = ROWS > 64 ? 2 : 1, M = ROWS / 16 / ACROSS;
    constexpr int OWN = COLUMNS / 4 / ACROSS;  // taps of its place that a thread gathers for a stage
    constexpr u32 Y = ROWS * DEEP * 2, X = DEEP * COLUMNS * 2, TAPS = 2 * (Y + X);
    const int lane = threadIdx.x & 31, warp = (int)(threadIdx.x >> 5), own = warp * OWN, row = warp / 4 * 16 * M;
    const T zero = T();
    const i64 depth = jg_times(c.channels, c.kernel), plane = jg_times(1, c.count);
    // neighbours in the grid have the same places
    const i64 across = jg_parts(depth, COLUMNS), down = jg_parts(c.outputs, ROWS);
    const i64 upper = jg_over(blockIdx.x, across), column = (blockIdx.x - upper * across) * COLUMNS;
    const i64 grouped = jg_over(upper, down), first = (upper - grouped * down) * ROWS;
    const i64 part = jg_over(grouped, c.groups), group = grouped - part * c.groups;
    // the tiles of places of this part; the next one is `k` of image n
    const i64 tiles = jg_parts(plane, DEEP), all = c.images * tiles, share = (all + parts - 1) / parts;
    const i64 begin = part * share, left = all - begin;
    const int count = (int)(left <= 0 ? 0 : left < share ? left : share);
    i64 n = jg_over(begin, tiles), k = (begin - n * tiles) * DEEP;
    y += group * c.outputs * plane;
    const bool by_pieces = plane % 8 == 0 && jg_aligned<8>(y);
    jg_tap<RANK>* const taps = (jg_tap<RANK>*)((char*)jg_shared + TAPS);

    u32 gathered[OWN / 2];
    auto gather = [&](int stage) {
        const T* x = c.x + n * c.image + group * c.channels * c.channel;
        u32 start[RANK];
        jg_window(c, k + lane, k + lane < plane, x, start);
        jg_gather<OWN>(gathered, c, x, start, taps + own);
        jg_row_tile<ROWS, DEEP>(stage * Y, y + n * c.groups * c.outputs * plane, c.outputs, plane, first, k, by_pieces);
        jg_commit();
        k += DEEP;
        if (k < plane) return;
        k = 0;
        n++;
    };
    auto store = [&](int stage) {
        #pragma unroll
        for (int p = 0; p < OWN / 8; p++) {
            uint4 whole = {gathered[4 * p], gathered[4 * p + 1], gathered[4 * p + 2], gathered[4 * p + 3]};
            jg_shared[(2 * Y + stage * X + jg_piece<COLUMNS>(lane, own / 8 + p)) / 16] = whole;
        }
        jg_arrived<0>();
        __syncthreads();
    };
    float found[M][2][4];
    jg_clear(found);
    jg_taps<COLUMNS>(taps, c, depth, column);
    __syncthreads();
    if (count) {
        gather(0);
        store(0);
    }
    for (int t = 0; t < count; t++) {
        const int here = t & 1, there = 1 - here;
        const bool more = t + 1 < count;
        if (more) gather(there);
        #pragma unroll
        for (int d = 0; d < DEEP / 16; d++) {
            u32 b[4];
            jg_right_t<COLUMNS>(b, 2 * Y + here * X, warp % 4, d);
            #pragma unroll
            for (int m = 0; m < M; m++) {
                u32 a[4];
                jg_left<DEEP>(a, here * Y, row + m * 16, d);
                jg_multiply(found[m][0], a, b[0], b[1], zero);
                jg_multiply(found[m][1], a, b[2], b[3], zero);
            }
        }
        if (more) store(there);
    }
    sums += (part * c.groups + group) * c.outputs * depth;
    #pragma unroll
    for (int m = 0; m < M; m++)
        #pragma unroll
        for (int i = 0; i < 8; i++) {
            const i64 o = first + row + m * 16 + lane / 4 + i / 2 % 2 * 8;
            const i64 at = column + warp % 4 * 16 + i / 4 * 8 + lane % 4 * 2 + i % 2;
            if (o < c.outputs && at < depth) sums[o * depth + at] = found[m][i / 4][i % 4];
        }
}
