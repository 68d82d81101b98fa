"""The scheduler's own HTTPS port: health, metrics, configuration, and the stories of pods.

    options                          the options that the flags set
    tls                              certificates, versions and cipher suites
    authentication, authorization    the user of a request, and the permission to make it
    reviews                          the client for both at the API server
    endpoints, replies               the paths and the texts of the answers
    http_server                      the socket and the server
    serve                            puts all of it together for a scheduler

Nothing is imported here, so that a process that serves nothing does not load the server.
"""
