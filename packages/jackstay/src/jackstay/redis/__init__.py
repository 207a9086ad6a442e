"""A backend on Redis or Valkey: servers on several machines share sessions, events, changes, limits and
tasks.

Needs the extra `redis`. `docs/deployment.md` describes what happens when Redis is slow, full or down.
"""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, {"._backend": "RedisBackend use_redis"})
