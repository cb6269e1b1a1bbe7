/**
 * The tables of `docs/options.md`: their order, titles, and the interfaces whose options each has. How a
 * table is written is in `options.ts`.
 *
 * @module
 */

/** A table, or the title of a part if it is of no interface. */
export interface OptionTable {
  readonly title: string;
  /** A text below the title. */
  readonly text?: string;
  /** The names of the exported interfaces. */
  readonly of: readonly string[];
}

/** Interfaces without a table: a narrower form of `OptionalFetchLockOptions`. */
export const NOT_LISTED: readonly string[] = ["FetchLockOptions"];

/** The text above the tables. */
export const HEAD = `# Options

Every option of every call, in the words of its comment in the code. An editor shows the rest of that
comment. \`deno task api\` writes this page, and the gate compares it with the code.

- The types that a table names are in [api.txt](api.txt), the public API.
- In the column _default_, \`-\` means that the option is not set.
- Durations are whole numbers of milliseconds.
- An unknown option is a \`TypeError\`, also in \`request()\`, unlike in the Web Locks API.
- Options are read once, at the start of the call: a later change of the object has no effect.`;

const COMMON = "Also those of [every integration](#every-integration)";

/** All tables. */
export const TABLES: readonly OptionTable[] = [
  {
    title: "Constructors",
    text: "Each strategy takes the options of the first table.",
    of: [],
  },
  {
    title: "Every strategy",
    text: "`MemoryLock` has no others.",
    of: ["StrategyOptions"],
  },
  { title: "RedisLock", of: ["RedisLockOptions"] },
  { title: "ZooKeeperLock", of: ["ZooKeeperLockOptions"] },
  { title: "auth of ZooKeeperLock", of: ["ZooKeeperAuth"] },
  { title: "tls of ZooKeeperLock", of: ["ZooKeeperTls"] },
  { title: "FileLock", of: ["FileLockOptions"] },
  {
    title: "openLock()",
    text: "Also those of [every strategy](#every-strategy). The URL has the others.",
    of: ["OpenLockOptions"],
  },
  {
    title: "Calls",
    text: "The options of one call of a lock, with any strategy unless the title names one.",
    of: [],
  },
  { title: "acquire() and tryAcquire()", of: ["AcquireOptions"] },
  {
    title: "request()",
    text: "Also those of [`acquire()`](#acquire-and-tryacquire).",
    of: ["RequestOptions"],
  },
  { title: "query()", of: ["QueryOptions"] },
  { title: "list()", of: ["ListOptions"] },
  {
    title: "acquire(), tryAcquire() and request() of RedisLock",
    text: "Also those above.",
    of: ["AttachableAcquireOptions", "AttachOptions"],
  },
  {
    title: "attach() of RedisLock",
    text: "Also `autoRenew`, `maxHoldMs` and `signal` of [`acquire()`](#acquire-and-tryacquire).",
    of: ["AttachOptions"],
  },
  { title: "webLocks()", of: ["WebLocksOptions"] },
  {
    title: "request() of webLocks()",
    text: "Unknown options are ignored here.",
    of: ["WebLockOptions"],
  },
  {
    title: "Web handlers",
    text:
      "The options of `@holdfast/lock/http` and its entries. A `LockKey` is the name of the lock, " +
      "or a function of the request that returns it.",
    of: [],
  },
  { title: "Every integration", of: ["HoldOptions"] },
  {
    title: "Middleware",
    text:
      "Of `expressLock()`, `koaLock()`, `honoLock()`, `@Lock()` and `LockInterceptor` of NestJS, and of " +
      "`config.lock` of a Fastify route, where the key alone may stand in the place of the options. " +
      "Also those of [every integration](#every-integration).",
    of: ["MiddlewareOptions"],
  },
  {
    title: "fetchLock()",
    text: `${COMMON}. If a request may run without a lease, the handler must expect \`undefined\`.`,
    of: ["OptionalFetchLockOptions"],
  },
  {
    title: "fastifyLock()",
    text:
      `${COMMON} and of [middleware](#middleware), without \`key\`. They are the defaults of the routes.`,
    of: ["FastifyLockOptions"],
  },
  {
    title: "lambdaLock()",
    text: `${COMMON}, except \`fencingHeader\`.`,
    of: ["OptionalLambdaLockOptions", "LambdaLockOptions"],
  },
  {
    title: "Recipes",
    text: "The options of `@holdfast/lock/recipes`, and of what is made of them.",
    of: [],
  },
  { title: "runOnce()", of: ["RunOnceOptions"] },
  { title: "lead()", of: ["LeadOptions"] },
  { title: "runCoordinator() for node-cron", of: ["RunCoordinatorOptions"] },
  {
    title: "Redlock",
    text: "The settings of `@holdfast/lock/redlock`, by the names of the package redlock.",
    of: ["RedlockSettings"],
  },
  { title: "Lock service and fencing", of: [] },
  { title: "lockRoutes()", of: ["LockRoutesOptions"] },
  { title: "fencedRedis()", of: ["FencedRedisOptions"] },
  { title: "fencedHttp()", of: ["FencedHttpOptions"] },
  {
    title: "instrumentLocks()",
    text: "Of `@holdfast/lock/otel`: see [tracing](tracing.md).",
    of: ["InstrumentLocksOptions"],
  },
  {
    title: "recordLocks()",
    text: "Of `@holdfast/lock/timeline`: see [tracing](tracing.md#a-picture-of-an-incident).",
    of: ["RecordLocksOptions"],
  },
  { title: "drawLocks()", of: ["DrawLocksOptions"] },
  {
    title: "Tests",
    text: "Of `@holdfast/lock/testing`: see [test your code](testing.md).",
    of: [],
  },
  {
    title: "FakeLock",
    text: "Also those of [every strategy](#every-strategy).",
    of: ["FakeLockOptions"],
  },
  { title: "holdElsewhere()", of: ["FakeHolderOptions"] },
  { title: "startOutage(), startRefusal() and delayAnswers()", of: ["FakeFaultOptions"] },
];
