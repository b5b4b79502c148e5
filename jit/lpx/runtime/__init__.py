"""Machine code to callables: objects, disk cache, threads, the native entry point, and the generic call path.

    data = objects.compile_module(llvm_ir)                      # object file, to be kept in cache.default_cache()
    code = support.link_kernel(data, ("add",))                  # machine code, freed with the last reference
    kernel = Specialisation(Signature("add", parameters), code)
    add = NativeFunction(lambda *args, **kwargs: arrays.call(kernel, args, kwargs))
    add.add(kernel)

Generated code obeys this interface:

    i32 NAME(ptr slots)
        slots: one data pointer per parameter, then one int64 per symbolic extent; returns 0, k > 0 when the k-th
        run-time check failed, -1 interrupted, -2 out of memory
    i32 lpx_parallel(ptr body, ptr closure, i64 n)
        calls `i32 body(ptr closure, i64 t, i64 nt, ptr region)` once on each of nt <= n threads, which does share t of
        nt; the first non-zero status is returned; a body without barriers may leave `region` out
    i32 lpx_share(ptr body, ptr closure, i64 n)
        calls such a body, without barriers, for each of nt <= n shares, on whatever threads are there
    i32 lpx_barrier(ptr region)
        inside a body, waits for all nt threads; a non-zero result is to be returned from the body at once
    ptr lpx_scratch_acquire(i64 bytes), void lpx_scratch_release(ptr)
        64-byte aligned memory, null when there is none left
    i32 lpx_interrupted
        global; long loops poll it and return -1 when it is not 0
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lpx.lazy import attributes

if TYPE_CHECKING:
    from lpx.runtime.cache import ObjectCache as ObjectCache
    from lpx.runtime.cache import default_cache as default_cache
    from lpx.runtime.native import NativeFunction as NativeFunction
    from lpx.runtime.objects import LinkedObject as LinkedObject
    from lpx.runtime.objects import compile_module as compile_module
    from lpx.runtime.pool import get_num_threads as get_num_threads
    from lpx.runtime.pool import set_num_threads as set_num_threads
    from lpx.runtime.signature import Parameter as Parameter
    from lpx.runtime.signature import Signature as Signature
    from lpx.runtime.specialisation import Specialisation as Specialisation
    from lpx.runtime.support import link_kernel as link_kernel
else:
    __getattr__ = attributes(
        __name__,
        {
            "LinkedObject": "lpx.runtime.objects",
            "NativeFunction": "lpx.runtime.native",
            "ObjectCache": "lpx.runtime.cache",
            "Parameter": "lpx.runtime.signature",
            "Signature": "lpx.runtime.signature",
            "Specialisation": "lpx.runtime.specialisation",
            "compile_module": "lpx.runtime.objects",
            "default_cache": "lpx.runtime.cache",
            "get_num_threads": "lpx.runtime.pool",
            "link_kernel": "lpx.runtime.support",
            "set_num_threads": "lpx.runtime.pool",
        },
    )
