module schema_generator

go 1.24
