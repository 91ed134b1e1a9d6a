"""Windows over space: convolution, pooling, resampling."""
