"""The thread pool: `lpx_parallel` and `lpx_barrier`, with workers that spin for a while and then sleep on a futex.

    i32 lpx_parallel(ptr body, ptr closure, i64 n)       `body` on nt = min(n, pool size) threads; first failure or 0
    i32 lpx_share(ptr body, ptr closure, i64 n)          `body` for nt <= n shares on any threads; first failure or 0
    i32 body(ptr closure, i64 t, i64 nt, ptr region)     does share t of nt; without barriers it may leave `region` out
    i32 lpx_barrier(ptr region)                          waits for the other threads; non-zero: return it at once
    void lpx_pool_configure(i32 threads, i64 spin)       size of the pool, and nanoseconds that waiting threads spin
    i32 lpx_pool_size()                                  that size
    i32 lpx_pool_started()                               workers that exist now
    void lpx_pool_reset()                                forget the workers: they do not exist in a forked child

Each worker has a mailbox, one word in a cache line of its own:

    IDLE --caller posts--> WORK --worker takes--> IDLE        while both spin, a fork costs one cache line each way
    IDLE --worker tires--> ASLEEP --caller posts, wakes--> WORK

The caller posts only after the last region was joined, so a mailbox never holds two regions. One region runs at a time:
a caller who finds the pool taken (a nested region, or another Python thread) runs its own region alone, so nothing
waits for the pool and nothing can deadlock. Workers start when the first region needs them, with every signal blocked.

A body that meets no barrier need not run on all threads at once. `lpx_share` gives each thread a few shares that lie
together, and threads that are through take over those of others, one at a time; the caller at last takes back what it
posted to workers that did not come, because the system runs something else in their place.
"""

from __future__ import annotations

from typing import Any

from lpx.runtime.emitted.emit import Code, Unit, Value
from lpx.runtime.emitted.layout import MAX_THREADS
from lpx.runtime.emitted.record import Record
from lpx.runtime.emitted.types import I8, I32, I64, PTR, VOID, ir

CACHE_LINE = 128  # two lines of 64 bytes: the adjacent-line prefetcher makes them travel in pairs

_IDLE, _ASLEEP, _WORK = 0, 1, 2
_CALLER_SLEEPS = 1 << 30  # flag in `pending`, above any number of threads

_SHARES_OF_THREAD = 4  # what one thread does of the rest when another is late is at most a share

MAILBOX = Record(align=CACHE_LINE, state="i32", done="i64")
REGION = Record(
    align=CACHE_LINE,
    body="ptr",
    closure="ptr",
    threads="i64",
    shares="i64",
    status="i32",
    arrived="i32",
    phase="i32",
    sleepers="i32",
)
_POOL = Record(align=CACHE_LINE, taken="i32", size="i32", started="i32", spin="i64")
_JOIN = Record(align=CACHE_LINE, pending="i32")

_FUTEX = {"x86_64": 202, "aarch64": 98}
_FUTEX_WAIT_PRIVATE, _FUTEX_WAKE_PRIVATE = 128, 129
_SIGSET_BYTES = 128


class PoolEmitter:
    """Emits the pool's functions into a unit."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.mailboxes = unit.variable("lpx_mailboxes", ir.ArrayType(I8, MAX_THREADS * MAILBOX.size), CACHE_LINE)
        self.pool = unit.variable("lpx_pool", ir.ArrayType(I8, _POOL.size), CACHE_LINE)
        self.join = unit.variable("lpx_join", ir.ArrayType(I8, _JOIN.size), CACHE_LINE)
        self.region = unit.variable("lpx_region", PTR, CACHE_LINE)
        self.futex = self._emit_futex()
        self.now = self._emit_clock()
        self.fail = self._emit_fail()
        self.worker = self._emit_worker()
        self.start = self._emit_start()
        self._emit_barrier()
        self._emit_fork("lpx_parallel", together=True)
        self._emit_fork("lpx_share", together=False)
        self._emit_settings()

    def _emit_futex(self) -> Any:
        """Waits while *word == value, or wakes `value` of those who wait.

        Waiting may end early: callers look again. Systems without futexes sleep a little.
        """
        unit = self.unit
        if not unit.is_linux:
            sleep = unit.extern("usleep", I32, I32)
            with unit.function("lpx_futex", VOID, PTR, I64, I32, local=True) as (code, _word, operation, _value):
                with code.when(operation.eq(_FUTEX_WAIT_PRIVATE)):
                    code.call(sleep, 50)
                code.ret()
            return unit.named("lpx_futex")
        syscall = unit.extern("syscall", I64, I64, variadic=True)
        number = _FUTEX[unit.triple.split("-")[0]]
        with unit.function("lpx_futex", VOID, PTR, I64, I32, local=True) as (code, word, operation, value):
            code.call(syscall, number, word, operation, value.widen(), code.null(), code.null(), 0)
            code.ret()
        return unit.named("lpx_futex")

    def _emit_clock(self) -> Any:
        """A clock in nanoseconds."""
        unit = self.unit
        clock = unit.extern("clock_gettime", I32, I32, PTR)
        with unit.function("lpx_now", I64, local=True) as (code,):
            time = code.stack(I64, 2)
            code.call(clock, 1 if unit.is_linux else 6, time)  # CLOCK_MONOTONIC
            code.ret(time.load(I64) * 1_000_000_000 + (time + 8).load(I64))
        return unit.named("lpx_now")

    def _spin(self, code: Code, word: Value, value: Value | int) -> None:
        """Spins while *word == value, for a bounded time.

        The clock is read once in a while, as it is slower than a look.
        """
        deadline = code.variable(code.i64(0))
        with code.forever():
            with code.count(code.i32(64)):
                code.leave_when(code.load_atomic(word, I32).ne(value))
                code.spin_hint()
            code.leave_when(code.load_atomic(word, I32).ne(value))
            now = code.call(self.now)
            with code.when(deadline.get().eq(0)):
                deadline.set(now + code.symbol(self.pool).get(_POOL["spin"]))
            code.leave_when(now >= deadline.get())

    def _emit_fail(self) -> Any:
        """Notes a failure, if it is the first one, and frees whoever waits at a barrier."""
        unit = self.unit
        with unit.function("lpx_fail", VOID, PTR, I32, local=True) as (code, region, status):
            code.compare_exchange(region + REGION["status"].offset, code.i32(0), status)
            self._open_barrier(code, region)
            code.ret()
        return unit.named("lpx_fail")

    def _open_barrier(self, code: Code, region: Value) -> None:
        phase = region + REGION["phase"].offset
        code.atomic("add", phase, code.i32(1))
        with code.when(code.load_atomic(region + REGION["sleepers"].offset, I32, "seq_cst").ne(0)):
            code.call(self.futex, phase, _FUTEX_WAKE_PRIVATE, MAX_THREADS)

    def _run_body(self, code: Code, region: Value, index: Value) -> None:
        """What thread `index` does of a region: its share, or as many shares as there are for it."""
        with code.choose(region.get(REGION["shares"]).eq(0)) as (together, apart):
            with together:
                self._run_share(code, region, index, region.get(REGION["threads"]))
            with apart:
                threads, shares = region.get(REGION["threads"]), region.get(REGION["shares"])
                with code.count(threads) as turn:
                    ahead = index + turn
                    owner = code.select(ahead < threads, ahead, ahead - threads)
                    done = code.symbol(self.mailboxes) + owner * MAILBOX.size + MAILBOX["done"].offset
                    with code.forever():
                        number = code.atomic("add", done, code.i64(1))
                        code.leave_when(number >= shares)
                        self._run_share(code, region, owner * shares + number, threads * shares)

    def _run_share(self, code: Code, region: Value, number: Value, count: Value) -> None:
        body, closure = region.get(REGION["body"]), region.get(REGION["closure"])
        status = code.call_pointer(body, I32, closure, number, count, region)
        with code.when(status.ne(0), likely=False):
            code.call(self.fail, region, status)

    def _emit_worker(self) -> Any:
        """The loop of one worker thread; its index is passed as a pointer."""
        unit = self.unit
        with unit.function("lpx_worker", PTR, PTR, local=True) as (code, argument):
            index = argument.address()
            state = code.symbol(self.mailboxes) + index * MAILBOX.size
            pending = code.symbol(self.join)
            with code.forever():
                self._spin(code, state, _IDLE)
                with code.when(code.compare_exchange(state, code.i32(_IDLE), code.i32(_ASLEEP))), code.forever():
                    code.leave_when(code.load_atomic(state, I32).ne(_ASLEEP))
                    code.call(self.futex, state, _FUTEX_WAIT_PRIVATE, _ASLEEP)
                posted = code.atomic("xchg", state, code.i32(_IDLE))
                with code.when(posted.eq(_WORK)):  # else the caller has taken it back
                    self._run_body(code, code.symbol(self.region).load(PTR), index)
                    left = code.atomic("sub", pending, code.i32(1))
                    with code.when(left.eq(_CALLER_SLEEPS + 1)):
                        code.call(self.futex, pending, _FUTEX_WAKE_PRIVATE, 1)
            code.unreachable()
        return unit.named("lpx_worker")

    def _emit_start(self) -> Any:
        """Starts workers until there are `wanted`, or as many as the system allows."""
        unit = self.unit
        create = unit.extern("pthread_create", I32, PTR, PTR, PTR, PTR)
        detach = unit.extern("pthread_detach", I32, PTR)
        mask = unit.extern("pthread_sigmask", I32, I32, PTR, PTR)
        fill = unit.extern("sigfillset", I32, PTR)
        with unit.function("lpx_start", VOID, I32, local=True) as (code, wanted):
            pool = code.symbol(self.pool)
            every = code.stack(I8, _SIGSET_BYTES, align=8)
            saved = code.stack(I8, _SIGSET_BYTES, align=8)
            thread = code.stack(PTR)
            code.call(fill, every)
            set_mask = 2 if unit.is_linux else 3  # SIG_SETMASK
            code.call(mask, set_mask, every, saved)
            with code.forever():
                started = pool.get(_POOL["started"])
                code.leave_when(started >= wanted)
                index = code.null() + (started + 1).widen()
                failed = code.call(create, thread, code.null(), code.symbol(self.worker), index)
                code.leave_when(failed.ne(0))
                code.call(detach, thread.load(PTR))
                pool.put(_POOL["started"], started + 1)
            code.call(mask, set_mask, saved, code.null())
            code.ret()
        return unit.named("lpx_start")

    def _emit_barrier(self) -> None:
        unit = self.unit
        with unit.function("lpx_barrier", I32, PTR) as (code, region):
            phase = region + REGION["phase"].offset
            before = code.load_atomic(phase, I32, "seq_cst")  # before the look at `status`, see `fail`
            status = code.load_atomic(region + REGION["status"].offset, I32, "seq_cst")
            threads = region.get(REGION["threads"]).narrow()
            with code.when(status.ne(0)):
                code.ret(status)
            with code.when(threads.eq(1)):
                code.ret(0)
            arrived = code.atomic("add", region + REGION["arrived"].offset, code.i32(1)) + 1
            with code.choose(arrived.eq(threads)) as (last, others):
                with last:
                    code.store_atomic(region + REGION["arrived"].offset, code.i32(0))
                    self._open_barrier(code, region)
                with others:
                    self._spin(code, phase, before)
                    sleepers = region + REGION["sleepers"].offset
                    code.atomic("add", sleepers, code.i32(1))
                    with code.forever():
                        code.leave_when(code.load_atomic(phase, I32, "seq_cst").ne(before))
                        code.call(self.futex, phase, _FUTEX_WAIT_PRIVATE, before)
                    code.atomic("sub", sleepers, code.i32(1))
            code.ret(code.load_atomic(region + REGION["status"].offset, I32))

    def _emit_fork(self, name: str, *, together: bool) -> None:
        unit = self.unit
        with unit.function(name, I32, PTR, PTR, I64) as (code, body, closure, n):
            pool = code.symbol(self.pool)
            region = code.stack(I8, REGION.size, align=CACHE_LINE)
            region.put(REGION["body"], body)
            region.put(REGION["closure"], closure)
            region.put(REGION["threads"], 1)
            region.put(REGION["shares"], 0)
            for counter in ("status", "arrived", "phase", "sleepers"):
                region.put(REGION[counter], 0)
            with code.when(n < 1):
                code.ret(0)
            size = pool.get(_POOL["size"]).widen()
            wanted = code.select(n < size, n, size)
            taken = pool + _POOL["taken"].offset
            with code.when(wanted > 1), code.when(code.atomic("xchg", taken, code.i32(1), "acquire").eq(0)):
                self._run_on_threads(code, region, wanted, n, together=together)
                code.store_atomic(taken, code.i32(0))
                code.ret(region.get(REGION["status"]))
            code.ret(code.call_pointer(body, I32, closure, code.i64(0), code.i64(1), region))

    def _run_on_threads(self, code: Code, region: Value, wanted: Value, n: Value, *, together: bool) -> None:
        pool = code.symbol(self.pool)
        with code.when(pool.get(_POOL["started"]).widen() < wanted - 1, likely=False):
            code.call(self.start, wanted.narrow() - 1)
        most = pool.get(_POOL["started"]).widen() + 1  # fewer than wanted when the system refused a thread
        threads = code.select(most < wanted, most, wanted)
        pending = code.symbol(self.join)
        region.put(REGION["threads"], threads)
        if not together:
            each = n.divided(threads)
            region.put(REGION["shares"], code.select(each < _SHARES_OF_THREAD, each, _SHARES_OF_THREAD))
            with code.count(threads) as thread:
                (code.symbol(self.mailboxes) + thread * MAILBOX.size).put(MAILBOX["done"], 0)
        code.symbol(self.region).store(region)
        code.store_atomic(pending, threads.narrow() - 1)
        with code.count(threads - 1) as worker:
            state = code.symbol(self.mailboxes) + (worker + 1) * MAILBOX.size
            old = code.atomic("xchg", state, code.i32(_WORK))
            with code.when(old.eq(_ASLEEP)):
                code.call(self.futex, state, _FUTEX_WAKE_PRIVATE, 1)
        self._run_body(code, region, code.i64(0))
        if not together:
            with code.count(threads - 1) as worker:
                state = code.symbol(self.mailboxes) + (worker + 1) * MAILBOX.size
                with code.when(code.compare_exchange(state, code.i32(_WORK), code.i32(_IDLE))):
                    code.atomic("sub", pending, code.i32(1))
        self._await_workers(code, pending)

    def _await_workers(self, code: Code, pending: Value) -> None:
        seen = code.variable(code.load_atomic(pending, I32))
        with code.forever():  # spin as long as workers keep finishing
            code.leave_when(seen.get().eq(0))
            self._spin(code, pending, seen.get())
            now = code.load_atomic(pending, I32)
            code.leave_when(now.eq(seen.get()))
            seen.set(now)
        with code.when(seen.get().ne(0)):
            code.atomic("or", pending, code.i32(_CALLER_SLEEPS))
            with code.forever():
                left = code.load_atomic(pending, I32)
                code.leave_when(left.eq(_CALLER_SLEEPS))
                code.call(self.futex, pending, _FUTEX_WAIT_PRIVATE, left)

    def _emit_settings(self) -> None:
        unit = self.unit
        with unit.function("lpx_pool_configure", VOID, I32, I64) as (code, threads, spin):
            code.symbol(self.pool).put(_POOL["size"], threads)
            code.symbol(self.pool).put(_POOL["spin"], spin)
            code.ret()
        with unit.function("lpx_pool_size", I32) as (code,):
            code.ret(code.symbol(self.pool).get(_POOL["size"]))
        with unit.function("lpx_pool_started", I32) as (code,):
            code.ret(code.symbol(self.pool).get(_POOL["started"]))
        with unit.function("lpx_pool_reset", VOID) as (code,):
            pool = code.symbol(self.pool)
            pool.put(_POOL["started"], 0)
            pool.put(_POOL["taken"], 0)
            with code.count(code.i64(MAX_THREADS)) as worker:
                (code.symbol(self.mailboxes) + worker * MAILBOX.size).store(0, I32)
            code.ret()
