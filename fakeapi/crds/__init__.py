"""CustomResourceDefinitions: kinds that users define, served like all others from then on.

    defaulting         what is filled into a definition
    definition_rules   what is wrong with one
    structural_rules   whether its schemas are structural; schema_rules: what they may say at all
    warnings           what is said about definitions and objects that are accepted
    definitions        what becomes of one: conditions, the rows in the table of kinds
    controller         follows definitions as they come, change and go
    structural         a version's `structure`: what objects of the kind go through
    pruning            unknown fields go, defaults come
    schema_validation  values judged by a schema; list_types, formats, go_patterns help

Conversion between versions is by name only (strategy None): a definition with the strategy Webhook
is stored, but its objects are converted as if it had none. Rules in CEL (x-kubernetes-validations)
are evaluated where `kubesched[cel]` is installed, see cel_rules; whoever defines one that is not
evaluated is warned.
"""
