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
import { lockRoutes, type LockRoutesOptions } from "../../lock_service/mod.ts";
import { RedisLock, type RedisLockOptions } from "../../redis/mod.ts";
import { fetchOnHttp2, type Http2Request } from "../http/http2_client.ts";
import { type Reporter, startReporter } from "../processes/child.ts";
import { openRedisClient } from "../redis/clients.ts";
import { waitUntil } from "../servers/wait.ts";
import { CONDITION_BOUND_MS } from "../time.ts";

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

async function fetchOnHttp1(
  url: string,
  { path, body = null, signal = null, ...request }: Http2Request,
): Promise<Response> {
  using client = Deno.createHttpClient({ http2: false, poolMaxIdlePerHost: 0 });
  const response = await fetch(`${url}${path}`, { ...request, body, signal, client });
  await response.clone().arrayBuffer(); // before the client is closed
  return response;
}

/** Sends a request on a connection of its own. */
export async function call(
  url: string,
  method: string,
  path: string,
  { as = "alice", body, signal, isHttp2 = false }: CallOptions = {},
): Promise<Answer> {
  const sends = isHttp2 ? fetchOnHttp2 : fetchOnHttp1;
  const response = await sends(url, {
    method,
    path,
    headers: { authorization: `Bearer ${encodeURIComponent(as)}` },
    body: body === undefined || typeof body === "string" ? body : JSON.stringify(body),
    signal,
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

/** The options of a service in this process. */
export interface ServiceOptions {
  readonly redisUrl: string;
  readonly routes?: Partial<LockRoutesOptions> & { prefix?: string };
  readonly lock?: RedisLockOptions;
  readonly fastify?: FastifyServerOptions;
  readonly isHttp2?: boolean;
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
  app.register(lockRoutes, {
    ...{ lock, authorize, onError },
    ...options.routes,
  });
  const url = await app.listen({ port: 0, host: "127.0.0.1" });
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
  readonly lock?: RedisLockOptions;
}

/** A service in a process of its own. */
export interface ServiceProcess extends AsyncDisposable {
  readonly url: string;
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
  await waitUntil("a service listens", () => reports.length > 0, CONDITION_BOUND_MS);
  const { url } = reports[0]!;
  return {
    url,
    async kill() {
      kill("SIGKILL");
      await ended;
    },
    finish,
    [Symbol.asyncDispose]: dispose,
  };
}
