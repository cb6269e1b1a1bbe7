/**
 * The table of layers and their allowed imports, which the gate checks (`tests/architecture_test.ts`).
 *
 * @module
 */

/** Files that belong together, and what they may import. */
export interface Layer {
  /** A folder and everything below it (`core/`), the files of a folder (`redis/*.ts`), or one file. */
  readonly files: string;
  /** Layers or single files. A layer may import its own files only if it lists itself. */
  readonly mayImport: readonly string[];
}

/** The table, by `files`. A file belongs to the first layer that matches. */
type Table = Readonly<Record<string, readonly string[]>>;

const STRATEGIES: Table = {
  "core/": ["core/"],
  "memory/": ["memory/", "core/"],
  "packages/": [],
  "file/": ["file/", "packages/", "core/"],
  "mod.ts": ["memory/", "core/"],
};

// Each layer imports only layers below it, which are listed before it.
const REDIS: Table = {
  "redis/client.ts": ["core/"],
  "redis/clients/internal/": ["redis/clients/internal/", "redis/client.ts", "core/"],
  "redis/clients/": ["redis/clients/internal/", "redis/client.ts", "core/"],
  "redis/protocol/": ["redis/protocol/", "redis/client.ts", "core/"],
  "redis/held_leases.ts": ["redis/client.ts", "core/"],
  "redis/waiting/": [
    ...["redis/waiting/", "redis/held_leases.ts", "redis/protocol/", "redis/client.ts", "core/"],
  ],
  "redis/redis_lock.ts": [
    ...["redis/*.ts", "redis/waiting/", "redis/held_leases.ts", "redis/protocol/"],
    ...["redis/client.ts", "core/"],
  ],
  "redis/mod.ts": ["redis/redis_lock.ts", "redis/*.ts", "redis/client.ts", "core/"],
  "redis/*.ts": [
    ...["redis/*.ts", "redis/waiting/", "redis/held_leases.ts", "redis/protocol/"],
    ...["redis/client.ts", "core/"],
  ],
};

const ZOOKEEPER: Table = {
  "zookeeper/connection/": ["zookeeper/connection/", "packages/", "core/"],
  "zookeeper/session/": ["zookeeper/session/", "zookeeper/connection/", "core/"],
  "zookeeper/recipe/": [
    ...["zookeeper/recipe/", "zookeeper/session/", "zookeeper/connection/", "core/"],
  ],
  "zookeeper/zookeeper_lock.ts": [
    ...["zookeeper/*.ts", "zookeeper/recipe/", "zookeeper/session/", "zookeeper/connection/"],
    "core/",
  ],
  "zookeeper/mod.ts": [
    "zookeeper/zookeeper_lock.ts",
    "zookeeper/*.ts",
    "zookeeper/connection/",
    "core/",
  ],
  "zookeeper/*.ts": [
    ...["zookeeper/*.ts", "zookeeper/recipe/", "zookeeper/session/", "zookeeper/connection/"],
    "core/",
  ],
};

const AROUND_HANDLERS: Table = {
  "http/shared/": ["http/shared/", "core/"],
  "http/internal/fastify/": [
    "http/internal/fastify/",
    "http/internal/*.ts",
    "http/shared/",
    "core/",
  ],
  "http/internal/lambda/": ["http/internal/lambda/", "http/internal/*.ts", "http/shared/", "core/"],
  // A decorator around a recipe.
  "http/internal/nest_run_once.ts": ["recipes/", "core/"],
  "http/internal/*.ts": ["http/internal/*.ts", "http/shared/", "core/"],
  "http/*.ts": [
    ...["http/internal/fastify/", "http/internal/lambda/", "http/internal/*.ts", "http/shared/"],
    ...["http/internal/nest_run_once.ts", "core/"],
  ],
  "lock_service/": ["lock_service/", "http/shared/", "core/"],
  "fencing/": ["fencing/", "http/shared/", "redis/client.ts", "core/"],
  "web_locks/": ["web_locks/", "core/"],
};

// Above the contract, beside the strategies: a recipe works with each of them.
const OVER_ANY_STRATEGY: Table = {
  "recipes/": ["recipes/", "core/"],
  "adapters/": ["recipes/", "core/"],
  // The class of another package, on the Redis strategy.
  "redlock/": [
    ...["redlock/", "redis/redis_lock.ts", "redis/*.ts", "redis/clients/", "redis/protocol/"],
    "core/",
  ],
};

/** Knows locks by the channels only, and so nothing but the core. */
const OBSERVERS: Table = {
  "otel/": ["otel/", "core/"],
  "timeline/drawing/": ["timeline/drawing/"],
  "timeline/": ["timeline/", "timeline/drawing/", "core/"],
};

// For tests of users: nothing that runs in production may import it.
const FOR_TESTS: Table = { "fake/": ["fake/", "core/"] };

/** Makes locks of all strategies, with the clients that they need; the command uses them. */
const OPEN: Table = {
  "open/": [
    ...["open/", "memory/", "file/", ...Object.keys(REDIS), ...Object.keys(ZOOKEEPER)],
    ...["packages/", "core/"],
  ],
  // A command that runs under a file lock gets its descriptor.
  "command/": ["command/", "open/", "timeline/", "file/lock_descriptor.ts", "core/"],
};

const PUBLISHED: Table = {
  ...STRATEGIES,
  ...REDIS,
  ...ZOOKEEPER,
  ...AROUND_HANDLERS,
  ...OVER_ANY_STRATEGY,
  ...OBSERVERS,
  ...FOR_TESTS,

  ...OPEN,
};
const published = Object.keys(PUBLISHED);

/** Nothing imports tests: code that several tests share is in `testing/`. */
const UNPUBLISHED: Table = {
  "testing/": ["testing/", "examples/", "tools/", ...published],
  "examples/": ["examples/", "testing/", ...published],
  "bench/": ["bench/", "testing/", "examples/", ...published],
  // It measures the published code in cycles, as the benches do.
  "tools/metrics/": ["tools/metrics/", "tools/", "testing/", "bench/", ...published],
  "tools/": ["tools/", "testing/"],
  "tests/": ["testing/", "examples/", "tools/metrics/", "tools/", "bench/", ...published],
};

/** All layers. */
export const LAYERS: readonly Layer[] = Object.entries({ ...PUBLISHED, ...UNPUBLISHED })
  .map(([files, mayImport]) => ({ files, mayImport }));
