"""Tensors of torch, which is not among the tests' packages: a stand-in speaks DLPack as it does."""

import ctypes
import unittest

import attend
import numpy as np
from attend._dlpack import _Tensor
from support import ServedTest, seeded

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Bfloat16:
    """Of float32 numbers that bfloat16 has exactly; column-major if so told, and not at the start of its memory."""

    def __init__(self, numbers, column_major=False, device=1):
        bits = (np.asarray(numbers, np.float32).view(np.uint32) >> 16).astype("<u2")
        self._memory = np.concatenate([[0], bits.T.ravel() if column_major else bits.ravel()]).astype("<u2")
        self._shape = (ctypes.c_int64 * bits.ndim)(*bits.shape)
        strides = np.cumprod([1, *bits.shape[:-1]]) if column_major else None
        self._strides = (ctypes.c_int64 * bits.ndim)(*strides) if column_major else None
        self._device = device

    def __dlpack_device__(self):
        return (self._device, 0)

    def __dlpack__(self):
        self._tensor = _Tensor(self._memory.ctypes.data, self._device, 0, len(self._shape), 4, 16, 1)
        self._tensor.shape, self._tensor.byte_offset = self._shape, 2
        if self._strides:
            self._tensor.strides = self._strides
        return _new_capsule(ctypes.addressof(self._tensor), b"dltensor", None)


class Float32:
    """What torch's float32 tensors let numpy do."""

    def __init__(self, array):
        self._array = array

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()

    def __dlpack__(self, **keywords):
        return self._array.__dlpack__(**keywords)


class Refused(Float32):
    """What torch does for a tensor that requires a gradient, after so many `exports`."""

    def __init__(self, array, exports):
        super().__init__(array)
        self._exports = exports

    def __dlpack__(self, **keywords):
        self._exports -= 1
        if self._exports < 0:
            raise BufferError("use tensor.detach()")
        return super().__dlpack__(**keywords)


def rounded(*shape, seed=1):
    """Numbers that bfloat16 has exactly."""
    return (seeded(*shape, seed=seed).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


class DlpackTest(ServedTest):
    def setUp(self):
        self.client = attend.Client(self.server.address)
        self.addCleanup(self.client.close)

    def test_bfloat16_travels_as_its_bits(self):
        x = rounded(6, 512)
        expected = self.client.attend(x, model="demo", dtype="bf16").output
        for tensor in (Bfloat16(x), Bfloat16(x, column_major=True)):
            output = self.client.attend(tensor, model="demo").output
            self.assertEqual(output.dtype, np.float32)
            np.testing.assert_array_equal(output, expected)
        sequences = self.client.attend([Bfloat16(x[:2]), Bfloat16(x[2:])], model="demo")
        self.assertEqual(sequences.lengths, [2, 4])

    def test_float32_is_taken_and_answers_are_given_by_dlpack(self):
        x = seeded(3, 512)
        output = self.client.attend(Float32(x), model="demo").output
        np.testing.assert_array_equal(output, self.client.attend(x, model="demo").output)
        shared = np.from_dlpack(output)  # as torch.from_dlpack does
        self.assertTrue(np.shares_memory(shared, output))

    def test_what_cannot_be_taken_says_why(self):
        with self.assertRaisesRegex(TypeError, "hidden_states: expected a tensor on the CPU"):
            self.client.attend(Bfloat16(rounded(2, 512), device=2), model="demo")
        words = r"expected a tensor that DLPack exports, found one that it does not: use tensor.detach\(\)"
        x = seeded(2, 512)
        for exports in (0, 1):  # before numpy's own, and at it
            for name, rows in (("hidden_states", Refused(x, exports)), ("memory", [x, Refused(x, exports)])):
                with self.subTest(name, exports=exports), self.assertRaisesRegex(TypeError, f"^{name}: {words}"):
                    self.client.attend(model="demo", **{name: rows})
        with self.assertRaisesRegex(ValueError, "dtype: expected none or 'bf16' beside bfloat16 rows, found 'fp32'"):
            self.client.attend(Bfloat16(rounded(2, 512)), model="demo", dtype="fp32")


if __name__ == "__main__":
    unittest.main()
