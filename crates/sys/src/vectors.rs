//! The vector registers that C functions may change, kept on the stack around a
//! call of one that the program knows nothing of.
//!
//! Apart because routines in assembly that nobody else resembles need the same 256
//! bytes, aligned, at the stack pointer.

/// Instructions that keep `xmm0` to `xmm15`.
macro_rules! keep_vectors {
    () => {
        concat!(
            "movaps [rsp], xmm0\n",
            "movaps [rsp + 16], xmm1\n",
            "movaps [rsp + 32], xmm2\n",
            "movaps [rsp + 48], xmm3\n",
            "movaps [rsp + 64], xmm4\n",
            "movaps [rsp + 80], xmm5\n",
            "movaps [rsp + 96], xmm6\n",
            "movaps [rsp + 112], xmm7\n",
            "movaps [rsp + 128], xmm8\n",
            "movaps [rsp + 144], xmm9\n",
            "movaps [rsp + 160], xmm10\n",
            "movaps [rsp + 176], xmm11\n",
            "movaps [rsp + 192], xmm12\n",
            "movaps [rsp + 208], xmm13\n",
            "movaps [rsp + 224], xmm14\n",
            "movaps [rsp + 240], xmm15\n",
        )
    };
}

/// Instructions that give them back.
macro_rules! give_vectors_back {
    () => {
        concat!(
            "movaps xmm0, [rsp]\n",
            "movaps xmm1, [rsp + 16]\n",
            "movaps xmm2, [rsp + 32]\n",
            "movaps xmm3, [rsp + 48]\n",
            "movaps xmm4, [rsp + 64]\n",
            "movaps xmm5, [rsp + 80]\n",
            "movaps xmm6, [rsp + 96]\n",
            "movaps xmm7, [rsp + 112]\n",
            "movaps xmm8, [rsp + 128]\n",
            "movaps xmm9, [rsp + 144]\n",
            "movaps xmm10, [rsp + 160]\n",
            "movaps xmm11, [rsp + 176]\n",
            "movaps xmm12, [rsp + 192]\n",
            "movaps xmm13, [rsp + 208]\n",
            "movaps xmm14, [rsp + 224]\n",
            "movaps xmm15, [rsp + 240]\n",
        )
    };
}

pub(crate) use {give_vectors_back, keep_vectors};
