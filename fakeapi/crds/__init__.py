"""CustomResourceDefinitions: kinds that users define.

    rules              the `KindRules` of definitions: validation, warnings, deletion
    schema_rules       validation of the schemas of definitions
    definitions        defaults, conditions, and the kinds that a definition serves
    controller         follows definitions and keeps the table of kinds in step
    structural         the `Structure` of a version: decoding and validation of objects
    pruning            unknown fields, defaults
    schema_validation  values against a schema; with values, formats, patterns, cel_rules

Objects are converted between versions by apiVersion only (strategy None); a definition with the
strategy Webhook is stored, and converted as with None. Rules in CEL and patterns need
`kubesched[cel]`; else they are not enforced, and the writer of the definition gets a warning.
"""
