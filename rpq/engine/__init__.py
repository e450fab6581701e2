"""The engine that users call, and what runs below it.

`engine` has the public class, `handlers` the functions that it calls with rows and the turns of threads, `statistics` its
figures, `running` the registered queries and the evaluation that feeds the stream to them, `state` saving and restoring,
and `warmup` compilation ahead of time. Nothing here depends on the kind of a query, except through the protocol
(`rpq.language.protocol`) and the registry of kinds. Modules may import from all floors below: operators, language, rows,
stream, compiled, files.
"""
