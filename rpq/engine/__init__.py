"""The engine that users call, and what runs below it.

`engine` has the public class, `handlers` the functions that it calls with rows and the turns of threads, `statistics` its
figures, `running` the registered queries and the evaluation that feeds the stream to them, and `state` saving and restoring;
`machine_memory` knows the memory of the machine and the process.
`warmup` runs every kernel once, `compilation` compiles them ahead of time, and `explanation` explains queries that
need not run. `running`, `state` and `statistics` depend on the kind of a query only through the protocol
(`rpq.language.protocol`) and the registry of kinds. `engine` imports `rpq.operators.paths` to register path queries, and
explains queries of each kind; `warmup` knows which kernels the paths need. Modules may import from all floors below:
operators, language, rows, stream, compiled, files.
"""
