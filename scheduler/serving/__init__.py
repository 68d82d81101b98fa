"""The scheduler's own port: health, numbers, configuration, and the stories of pods.

    flags < options                               what was asked for
    listener, certificates < tls                  where, and with which certificate
    users, reviews < authentication, authorization    who asks, and may they
    health, replies < endpoints                   what they are told
    secure < server                               all of it together

It knows nothing of the scheduler but the callables it is handed (`endpoints.Sources`), and nothing
is imported here: a process that serves nothing pays for nothing.
"""
