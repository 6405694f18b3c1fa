"""Arrays in memory of GPUs that are not there."""

import ctypes


class OnGpu:
    """Memory of a CUDA GPU, as DLPack tells of it; nobody may look at it."""

    class Tensor(ctypes.Structure):  # DLManagedTensor
        _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("device_id", ctypes.c_int32),
                    ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                    ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                    ("byte_offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]

    def __init__(self, gpu=0):
        self.shape = (ctypes.c_int64 * 1)(4)
        self.tensor = OnGpu.Tensor(data=256, device=2, device_id=gpu, ndim=1, code=2, bits=32, lanes=1, shape=self.shape)

    def __dlpack__(self, **wishes):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(self.tensor), b"dltensor", None)

    def __dlpack_device__(self):
        return 2, self.tensor.device_id
