"""numba kernels: arrays in, arrays out, no allocation in loops, no fastmath, so that machines agree to the last bit."""
