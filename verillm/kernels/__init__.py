"""Triton kernels for workers and verifiers with an NVIDIA GPU; ``docs/kernels.md`` describes them.

Each gives the integers of the plain code that it stands for: ``rows`` and ``tree`` of
``verillm.commitment``, ``sampler`` of ``verillm.sampling.sampler``, ``comparator`` of
``verillm.comparator.compare``. Tensors are on a CUDA device, or on the CPU if TRITON_INTERPRET=1 was set
before triton was imported.
"""
