/**
 * The facts of `package.json` that are not in `deno.json`.
 *
 * @module
 */

/** The project's address. The workflow that publishes fails elsewhere. */
export const REPOSITORY = "https://github.com/holdfast-lock/holdfast";

/** Pages about the development of the project, which the package leaves out. */
export const UNPACKED_PAGES: readonly string[] = [
  ...["docs/behaviours.md", "docs/bug-history.md", "docs/metrics.md"],
];

/** One line about the package. */
export const DESCRIPTION =
  "Distributed locks for Node, Bun and Deno: leases with fencing tokens over Redis, ZooKeeper, files " +
  "and memory";

/** The words by which the package is found. */
export const KEYWORDS: readonly string[] = [
  ...["distributed-lock", "lock", "mutex", "lease", "leader-election", "fencing-token"],
  ...["redis", "valkey", "zookeeper", "flock", "redlock"],
  ...["express", "nestjs", "koa", "fastify", "hono", "lambda", "cron", "node-cron"],
];

/** The oldest versions that the package runs on. From Node 22.12 on, `require()` loads it. */
export const ENGINES: Readonly<Record<string, string>> = {
  node: ">=22.12.0",
  bun: ">=1.3.0",
  deno: ">=2.8.0",
};

/**
 * The packages that a user installs for what they use. Those of the user's own program may have any version:
 * npm installs nothing beside one that a range excludes, also for a user of other entries. The ZooKeeper client
 * is pinned, because its private parts are patched.
 */
export const PEERS: Readonly<Record<string, string>> = {
  "@nestjs/common": "*",
  "@opentelemetry/api": "*",
  "express": "*",
  "fastify": "*",
  "hono": "*",
  "ioredis": "*",
  "koa": "*",
  "koffi": "^2.9.1 || ^3.0.0",
  "node-zookeeper-client": "1.1.3",
  "redis": "*",
  "rxjs": "*",
};
