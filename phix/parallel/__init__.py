"""Programs on several processes: each runs the same function, on its own part of the data.

A mesh gives the processes of ``mpiexec`` named axes; a function on the mesh joins them by the
collectives that lanes of ``phix.vmap`` know::

    mesh = phix.parallel.mesh({"data": -1})  # all processes; without mpiexec, this one

    def step(w, x, y):
        loss = lambda w: phix.pmean(phix.ops.mean((x @ w - y) ** 2), "data")
        return w - 0.1 * phix.grad(loss)(w)

    step = phix.jit(phix.parallel.spmd(step, mesh, (None, "data", "data"), None))

A function of whole tensors, without collectives, becomes such a one by ``phix.parallel.shard``,
from the shardings of its arguments. docs/parallel.md says what derivatives mean there. mpi4py is
imported when a mesh of several processes is asked for. Imported on first use.
"""

from phix.core.faces import face
from phix.parallel.experts import experts
from phix.parallel.meshes import Mesh, mesh
from phix.parallel.programs import spmd
from phix.parallel.ring import ring_attention
from phix.parallel.routed import global_gather, global_scatter
from phix.parallel.saving import load, save
from phix.parallel.sharded import shard
from phix.parallel.specs import even_specs, gather, local_parts
from phix.parallel.stages import pipeline
from phix.parallel.sweeps import map

__all__ = [
    "Mesh", "even_specs", "experts", "gather", "global_gather", "global_scatter", "load",
    "local_parts", "map", "mesh", "pipeline", "ring_attention", "save", "shard", "spmd",
]  # fmt: skip
__dir__ = face(__all__)
