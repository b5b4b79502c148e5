"""What lowering needs to know of a graph of tensors: what runs, in which order, and in whose memory.

Operations form levels: the function itself, and the step of each scan. Within a level an operation runs after those it
reads from. Where it overwrites the memory of a tensor, it runs after everything else that reads that tensor.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from lpx.errors import DefinitionError
from lpx.expr import traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Expr, Load
from lpx.records import record
from lpx.te.definition import Compute, Placeholder
from lpx.te.reduction import Reduce
from lpx.te.scan import Scan, ScanState
from lpx.te.tensor import Frame, Operation, Tensor, tensor_of
from lpx.te.update import Update

Level = Frame | None
_Members = Mapping[Level, Sequence[Operation]]
_Edges = dict[Operation, dict[Operation, None]]  # from an operation to those that must run before it


@record
class Program:
    """The operations of each level in the order they run, and for each tensor the buffer that holds its elements."""

    levels: Mapping[Level, Sequence[Operation]]
    storage: Mapping[Buffer, Buffer]

    def operations(self) -> list[Operation]:
        """All operations, in an order that the program fixes."""
        return [op for level in self.levels.values() for op in level]

    def placeholders(self, level: Level = None) -> list[Tensor]:
        """The placeholders that are read from `level` on, in order of first use."""
        found: dict[Tensor, None] = {}
        for op in self.levels.get(level, ()):
            read = [state.init for state in op.states] if isinstance(op, Scan) else operands(op)
            found.update(dict.fromkeys(tensor for tensor in read if isinstance(tensor.op, Placeholder)))
            if isinstance(op, Scan):
                found.update(dict.fromkeys(self.placeholders(op.frame)))
        return list(found)

    def place(self, tensor: Tensor) -> Buffer:
        """The buffer that holds the elements of `tensor`."""
        return self.storage.get(tensor.buffer, tensor.buffer)


def plan(results: Sequence[Tensor]) -> Program:
    """The program that computes `results`.

    Raises: DefinitionError when an update would destroy what is still needed.
    """
    operations = _reachable(results)
    members: dict[Level, list[Operation]] = {}
    for op in operations:
        members.setdefault(op.scope[-1] if op.scope else None, []).append(op)
    memory = _SharedMemory()
    _share_updated(operations, results, memory)
    scans = {op.frame: op for op in operations if isinstance(op, Scan)}
    uses = Counter(tensor for op in operations for tensor in operands(op)) + Counter(results)
    for scan in scans.values():
        _share_states(scan, uses, memory)
    levels: dict[Level, Sequence[Operation]] = {}
    for level, ops in members.items():
        edges = _edges(ops, members)
        if level is not None:
            _overwrite_states(scans[level], edges, members, memory)
        levels[level] = _ordered(ops, edges)
    return Program(levels, memory.storage(results))


def operands(op: Operation) -> list[Tensor]:
    """What an operation depends on directly, in order of first use; for a scan, what it starts from and ends with."""
    if isinstance(op, Scan):
        return [*(state.init for state in op.states), *(state.after for state in op.states)]
    if not isinstance(op, Compute):
        return []
    exprs = (*op.values, *op.indices) if isinstance(op, Update) else op.values
    loads = (node for expr in exprs for node in traverse.accesses(expr) if isinstance(node, Load))
    read = [tensor_of(load.buffer) for load in loads]
    return list(dict.fromkeys([*read, op.target] if isinstance(op, Update) else read))


def _reachable(results: Iterable[Tensor]) -> list[Operation]:
    """The operations that `results` depend on, each after its operands', in an order the program fixes."""
    done: dict[Operation, None] = {}
    stack = [(tensor.op, False) for tensor in reversed(list(results))]
    while stack:
        op, ready = stack.pop()
        if ready:
            done[op] = None
        elif op not in done:
            stack.append((op, True))
            stack.extend((tensor.op, False) for tensor in reversed(operands(op)))
    return list(done)


def _reads(op: Operation, members: _Members) -> list[Tensor]:
    """The tensors of its own or outer levels that an operation reads; for a scan, those its step reads."""
    if not isinstance(op, Scan):
        return operands(op)
    inside = [tensor for member in members.get(op.frame, ()) for tensor in _reads(member, members)]
    outer = [tensor for tensor in inside if len(tensor.op.scope) <= len(op.scope)]
    return list(dict.fromkeys([*(state.init for state in op.states), *outer]))


def _edges(ops: Sequence[Operation], members: _Members) -> _Edges:
    level = set(ops)
    readers = _readers(ops, members)
    edges: _Edges = {op: {t.op: None for t in _reads(op, members) if t.op in level} for op in ops}
    for op in ops:
        if isinstance(op, Update):
            edges[op].update(dict.fromkeys(reader for reader in readers[op.target] if reader is not op))
    return edges


def _readers(ops: Sequence[Operation], members: _Members) -> dict[Tensor, list[Operation]]:
    readers: dict[Tensor, list[Operation]] = {}
    for op in ops:
        for tensor in _reads(op, members):
            readers.setdefault(tensor, []).append(op)
    return readers


def _share_updated(operations: Sequence[Operation], results: Sequence[Tensor], memory: _SharedMemory) -> None:
    updates: dict[Tensor, Update] = {}
    for op in operations:
        if not isinstance(op, Update):
            continue
        other = updates.setdefault(op.target, op)
        if other is not op or op.target in results:
            what = "is an output" if other is op else f"is also updated into {other.outputs[0].name}"
            raise DefinitionError(
                f"{op.target.name} is updated in place into {op.outputs[0].name}, but it {what}",
                hint="an update takes the place of its target: use the updated tensor from there on, or update a copy",
                span=op.span,
            )
        memory.join(op.outputs[0], op.target)


def _share_states(scan: Scan, uses: Counter[Tensor], memory: _SharedMemory) -> None:
    """A state lives where its last value is wanted, and starts there when nothing else needs what it starts from."""
    for state, output in zip(scan.states, scan.outputs, strict=True):
        if state.keep == "last":
            memory.join(output, state.before)
        init = state.init.op
        private = isinstance(init, Compute) and not isinstance(init, Update) and init.scope == scan.scope
        if private and uses[state.init] == 1:
            memory.join(state.init, state.before)


def _overwrite_states(scan: Scan, edges: _Edges, members: _Members, memory: _SharedMemory) -> None:
    """Compute new states in the memory of the old ones, wherever all that reads the old state can run before."""
    ops = members[scan.frame]
    readers = _readers(ops, members)
    updated = {op.target for op in ops if isinstance(op, Update)}
    for state in scan.states:
        op = state.after.op
        if isinstance(op, Update) or state.before in updated or not _reads_in_place(op, state.before):
            continue
        earlier = dict.fromkeys(reader for reader in readers.get(state.before, ()) if reader is not op)
        trial = {**edges, op: {**edges[op], **earlier}}
        if _sorted(ops, trial) is not None:
            edges[op] = trial[op]
            memory.join(state.after, state.before)


def _reads_in_place(op: Operation, state: Tensor) -> bool:
    """Whether each element of what `op` computes depends on the same element of `state` at most, and on that only
    before it is first written.
    """
    if not isinstance(op, Compute):
        return False
    running = [part for value in op.values if isinstance(value, Reduce) for part in value.values]
    if any(_loads(part, state) for part in running):
        return False
    loads = [load for value in op.values for load in _loads(value, state)]
    return all(a is b for load in loads for a, b in zip(load.indices, op.axes, strict=True))


def _loads(expr: Expr, tensor: Tensor) -> list[Load]:
    return [node for node in traverse.accesses(expr) if isinstance(node, Load) and node.buffer is tensor.buffer]


def _ordered(ops: Sequence[Operation], edges: _Edges) -> Sequence[Operation]:
    found = _sorted(ops, edges)
    if found is not None:
        return found
    updates = [op for op in ops if isinstance(op, Update)]
    update = next((op for op in updates if _sorted(ops, {**edges, op: {}}) is not None), updates[0])
    raise DefinitionError(
        f"what reads {update.target.name} needs its updated value {update.outputs[0].name} too",
        hint=f"an update takes the place of its target: copy {update.target.name} before, and read the copy",
        span=update.span,
    )


def _sorted(ops: Sequence[Operation], edges: _Edges) -> list[Operation] | None:
    """The operations in an order that respects `edges` and otherwise stays as given; None when there is a cycle."""
    position = {op: k for k, op in enumerate(ops)}
    waiting = {op: len(edges[op]) for op in ops}
    after: dict[Operation, list[Operation]] = {}
    for op in ops:
        for earlier in edges[op]:
            after.setdefault(earlier, []).append(op)
    ready = [position[op] for op in ops if not waiting[op]]
    heapq.heapify(ready)
    done: list[Operation] = []
    while ready:
        op = ops[heapq.heappop(ready)]
        done.append(op)
        for later in after.get(op, ()):
            waiting[later] -= 1
            if not waiting[later]:
                heapq.heappush(ready, position[later])
    return done if len(done) == len(ops) else None


class _SharedMemory:
    """Groups of tensors that live in the same memory."""

    def __init__(self) -> None:
        self._groups: dict[Tensor, list[Tensor]] = {}

    def join(self, a: Tensor, b: Tensor) -> None:
        """Put the groups of two tensors together."""
        first, second = self._groups.setdefault(a, [a]), self._groups.setdefault(b, [b])
        if first is not second:
            first.extend(second)
            self._groups.update(dict.fromkeys(second, first))

    def storage(self, results: Sequence[Tensor]) -> dict[Buffer, Buffer]:
        """The buffer for each tensor that shares: a parameter's where one is in the group, else a state's."""
        wanted = set(results)

        def rank(tensor: Tensor) -> int:
            if isinstance(tensor.op, Placeholder):
                return 0
            return 1 if tensor in wanted else 2 if isinstance(tensor.op, ScanState) else 3

        return {tensor.buffer: min(group, key=rank).buffer for tensor, group in self._groups.items()}
