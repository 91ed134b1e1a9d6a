"""What a GPU is asked for, by ctypes: the driver, NVRTC, cuBLASLt; and the launcher."""
