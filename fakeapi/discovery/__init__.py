"""Discovery, OpenAPI and health documents."""
