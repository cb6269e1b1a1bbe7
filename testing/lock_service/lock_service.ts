/**
 * Starts lock services under test, in this process or in others, and sends requests to them.
 *
 * @module
 */
import Fastify, {
  type FastifyInstance,
  type FastifyRequest,
  type FastifyServerOptions,
} from "fastify";
import { lockRoutes, type LockRoutesOptions, redisReservations } from "../../lock_service/mod.ts";
import { RedisLock, type RedisLockOptions } from "../../redis/mod.ts";
import { type Reporter, startReporter } from "../processes/child.ts";
import { openRedisClient } from "../redis/clients.ts";
import { waitUntil } from "../servers/wait.ts";

/** The answer of a service. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  // deno-lint-ignore no-explicit-any -- parsed JSON
  readonly body: any;
}

/** The parts of a request besides its method and path. */
export interface CallOptions {
  /** The principal. */
  readonly as?: string;
  readonly body?: unknown;
  readonly signal?: AbortSignal;
  readonly isHttp2?: boolean;
}

/** Sends a request on a connection of its own. */
export async function call(
  url: string,
  method: string,
  path: string,
  { as = "alice", body, signal, isHttp2 = false }: CallOptions = {},
): Promise<Answer> {
  const versions = { http1: !isHttp2, http2: isHttp2 };
  using client = Deno.createHttpClient({ ...versions, poolMaxIdlePerHost: 0 });
  const response = await fetch(`${url}${path}`, {
    method,
    client,
    headers: { authorization: `Bearer ${encodeURIComponent(as)}` },
    ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    ...(signal === undefined ? {} : { signal }),
  });
  const text = await response.text();
  const { status, headers } = response;
  const isJson = /json/.test(headers.get("content-type") ?? "");
  return { status, headers, body: isJson && text !== "" ? JSON.parse(text) : text };
}

/** Returns the text after "Bearer" as the principal. The principal "nobody" is rejected. */
export function authorize({ headers }: Pick<FastifyRequest, "headers">): string | null {
  const principal = /^Bearer (.+)$/.exec(headers.authorization ?? "")?.[1];
  if (principal === undefined) {
    throw Object.assign(new Error("A bearer token is needed"), {
      statusCode: 401,
      headers: { "www-authenticate": "Bearer" },
    });
  }
  return principal === "nobody" ? null : decodeURIComponent(principal);
}

/** The limits of each principal, with reservations on the Redis of the service. */
export interface LimitOptions {
  readonly maxLeases?: number;
  readonly maxWaiters?: number;
  readonly keyPrefix?: string;
  readonly timeoutMs?: number;
}

/** The options of a service in this process. */
export interface ServiceOptions {
  readonly redisUrl: string;
  readonly routes?: Partial<LockRoutesOptions> & { prefix?: string };
  readonly lock?: RedisLockOptions;
  readonly limits?: LimitOptions;
  readonly fastify?: FastifyServerOptions;
  readonly isHttp2?: boolean;
  readonly port?: number;
  /** Called before the service listens. */
  prepare?(app: FastifyInstance): void | Promise<void>;
}

/** A service in this process. */
export interface Service extends AsyncDisposable {
  readonly app: FastifyInstance;
  readonly url: string;
  readonly errors: unknown[];
}

/** Starts a service in this process. */
export async function openService(options: ServiceOptions): Promise<Service> {
  const { client, close } = await openRedisClient("node-redis", options.redisUrl);
  const lock = new RedisLock(client, options.lock);
  const errors: unknown[] = [];
  const onError = (error: unknown) => void errors.push(error);
  // Fastify's types have another kind of instance for each protocol.
  const http2 = { http2: options.isHttp2 ?? false } as FastifyServerOptions;
  const app = Fastify({ forceCloseConnections: true, ...http2, ...options.fastify });
  await options.prepare?.(app);
  const { limits: { keyPrefix, timeoutMs, ...limits } = {} } = options;
  const store = redisReservations(client, { keyPrefix, timeoutMs });
  const principalLimits = options.limits && { store, ...limits };
  app.register(lockRoutes, {
    ...{ lock, authorize, onError },
    ...principalLimits && { principalLimits },
    ...options.routes,
  });
  const url = await app.listen({ port: options.port ?? 0, host: "127.0.0.1" });
  return {
    app,
    url,
    errors,
    async [Symbol.asyncDispose]() {
      await app.close();
      await lock[Symbol.asyncDispose]();
      await close();
    },
  };
}

/** The options of a service in a process of its own. */
export interface ProcessOptions {
  readonly redisUrl: string;
  readonly port?: number;
  readonly lock?: RedisLockOptions;
  readonly limits?: LimitOptions;
}

/** A service in a process of its own. */
export interface ServiceProcess extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  /** Kills the process. */
  kill(): Promise<void>;
  /** Closes the server and the lock; resolves with the exit code. */
  finish(): Promise<number>;
}

/** Starts a service in a process of its own. */
export async function startService(options: ProcessOptions): Promise<ServiceProcess> {
  const reporter: Reporter<{ url: string }> = startReporter(
    new URL("./lock_service_server.ts", import.meta.url),
    options,
  );
  const { reports, kill, ended, finish, [Symbol.asyncDispose]: dispose } = reporter;
  await waitUntil("a service listens", () => reports.length > 0);
  const { url } = reports[0]!;
  return {
    url,
    port: Number(new URL(url).port),
    async kill() {
      kill("SIGKILL");
      await ended;
    },
    finish,
    [Symbol.asyncDispose]: dispose,
  };
}
