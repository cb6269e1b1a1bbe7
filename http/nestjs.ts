/**
 * A decorator and an interceptor for NestJS that hold a lock while a route is handled, with Express or Fastify below.
 * The steps are those of `internal/request.ts`; how the handler is called is in `internal/nest_call.ts`.
 *
 * @example Usage
 * ```ts
 * import { MemoryLock } from "@holdfast/lock";
 * import { LockInterceptor } from "@holdfast/lock/http/nestjs";
 *
 * await using locks = new MemoryLock(); // or any other strategy
 * const interceptor = new LockInterceptor(locks, { key: "nightly-report", waitMs: 2_000 });
 * // app.useGlobalInterceptors(interceptor), or @UseInterceptors(interceptor)
 * ```
 *
 * @module
 */
import {
  createParamDecorator,
  type ExecutionContext,
  HttpException,
  Inject,
  Optional,
  SetMetadata,
  UseInterceptors,
  // Any version: it must be that of the application.
} from "npm:@nestjs/common@x";
import { Observable } from "npm:rxjs@^7.1.0";
import type { DistributedLock, Lease } from "../core/contract/distributed_lock.ts";
import { LockSetupError } from "../core/contract/errors.ts";
import { LockedCall, type NestLockCall } from "./internal/nest_call.ts";
import { LockedResponse } from "./internal/node_response.ts";
import { type ShieldedResponse, shieldOf } from "./internal/node_shield.ts";
import { LOCKS } from "./internal/nest_run_once.ts";
import {
  checkLock,
  MIDDLEWARE_OPTIONS,
  type MiddlewareOptions,
  type MiddlewareSettings,
  readOptions,
} from "./internal/options.ts";
import { acquireForRequest, keyOf, leasesOf } from "./internal/request.ts";
import { BODY_HEADERS, CLIENT_GONE, leaseLost, type Problem } from "./shared/problem.ts";

export { type LockKey, type MiddlewareOptions, NO_LOCK, type NoLock } from "./internal/options.ts";
export { LOCKS, RunOnce } from "./internal/nest_run_once.ts";
export type { NestLockCall, ResultObserver } from "./internal/nest_call.ts";

/** The parts of Nest's `ExecutionContext` that are used. */
export interface NestLockContext {
  /** The kind of the call: `"http"` for a request. */
  getType(): string;
  /** The class of the handler. */
  getClass(): { readonly name: string };
  /** The method that handles the request. */
  getHandler(): { readonly name: string };
  /** The request and the response. */
  switchToHttp(): {
    /** The request of Express or Fastify. */
    getRequest<T>(): T;
    /** The response of Express, or the reply of Fastify. */
    getResponse<T>(): T;
  };
}

/** The parts of a request that a key is usually made of. */
export interface NestLockRequest {
  /** The method of the request. */
  readonly method: string;
  /** The parameters of the route, decoded. */
  readonly params: Readonly<Record<string, string | undefined>>;
  /** The parameters of the query. */
  readonly query: Readonly<Record<string, unknown>>;
  /** The body, parsed but not yet validated by pipes. */
  readonly body: unknown;
  /** The headers. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

/** The parts of a response of Express or Fastify that are used. */
interface PlatformResponse {
  readonly raw?: ShieldedResponse;
  header(name: string, value: string): unknown;
  removeHeader(name: string): unknown;
}

const ROUTE = "@holdfast/lock/route";
/** The innermost lease of each request. */
const leases = new WeakMap<object, Lease>();

/**
 * Holds a lock while a route is handled: see {@linkcode Lock} for how. Nest makes one for `@Lock()`. Make
 * one yourself to lock whole controllers, or routes with another lock than that of {@linkcode LOCKS}.
 *
 * @example One lock for a whole application, without waiting
 * ```ts
 * import { MemoryLock } from "@holdfast/lock";
 * import { LockInterceptor, NO_LOCK } from "@holdfast/lock/http/nestjs";
 *
 * await using locks = new MemoryLock();
 * const key = ({ method }: { method: string }) => method === "GET" ? NO_LOCK : "orders";
 * const interceptor = new LockInterceptor(locks, { key });
 * // app.useGlobalInterceptors(interceptor);
 * ```
 */
export class LockInterceptor {
  readonly #lock: DistributedLock;
  readonly #route: MiddlewareSettings<[request: never]> | undefined;

  /**
   * Makes an interceptor: Nest does so for `@Lock()`.
   *
   * @param lock Any strategy.
   * @param options The key and other options, or the key alone. Without them, those of `@Lock()`.
   * @throws {TypeError|RangeError} If an option is bad.
   */
  constructor(
    lock: DistributedLock,
    options?: MiddlewareOptions<[request: NestLockRequest]> | string,
  ) {
    checkLock("the first argument of new LockInterceptor()", lock, options);
    this.#lock = lock;
    this.#route = options === undefined ? undefined : readRoute(options);
  }

  /**
   * Acquires the lock, and returns the results of the handler, which runs under it.
   *
   * @throws {HttpException} With problem details, if the request does not get the lock.
   * @throws {LockSetupError} If the lock cannot work as it is set up.
   */
  // deno-lint-ignore no-explicit-any -- an observable of rxjs, whose types are not ours to publish
  async intercept(context: NestLockContext, next: NestLockCall): Promise<any> {
    const settings = this.#route ?? routeOf(context);
    const http = context.switchToHttp();
    const request = http.getRequest<NestLockRequest>();
    if (settings.unlockedMethods.includes(request.method)) return next.handle();
    const key = await keyOf(settings.key, request as never);
    if (key === null) return next.handle();
    const platform = http.getResponse<PlatformResponse>();
    const response = responseOf(platform);
    const shield = shieldOf(response);
    const locked = new LockedResponse(response, shield.destroy);
    const requester = { leases: leasesOf(response), abandoned: locked.abandoned };
    const acquired = await acquireForRequest(this.#lock, key, settings, requester);
    if (acquired.state === "unlocked") return next.handle();
    if (acquired.state === "gone") {
      throw new HttpException("Nobody awaits the response", CLIENT_GONE);
    }
    if (acquired.state === "failed") throw exceptionOf(acquired.problem, platform, acquired.cause);
    const { lease } = acquired;
    leases.set(request, lease);
    const lossError = () => exceptionOf(leaseLost(), platform, lease.signal.reason);
    // First: from now on the end of the response releases the lock, whatever fails.
    const call = new LockedCall(lease, response, shield, locked, settings, lossError);
    const { fencingHeader } = settings;
    if (fencingHeader !== undefined && !response.headersSent) {
      platform.header(fencingHeader, String(lease.fencingToken));
    }
    return new Observable((subscriber) => call.run(next.handle(), subscriber));
  }
}

// As decorators of the parameters do: this module must not need a compiler for decorators.
Inject(LOCKS)(LockInterceptor, undefined, 0);
Optional()(LockInterceptor, undefined, 1); // Nest has no options to pass, and would warn about that

/**
 * Locks a route: at most one request per key is handled at a time, across all processes, HEAD and OPTIONS
 * excepted. The lock is that of {@linkcode LOCKS}; {@linkcode HeldLease} gives the handler its lease.
 *
 * The lock is acquired after the guards, and before the pipes and the handler. It is held until the handler
 * has ended (its promise or its observable), and the response is complete (streams and server-sent events
 * too) or the client has disconnected. A handler that answers with `@Res()` must return a promise that lasts
 * as long as its work. A client that disconnects while it waits leaves the queue.
 *
 * A request that does not get the lock within `waitMs` fails with an `HttpException`: 409 with `Retry-After`, or 503
 * if the lock service is out of reach. The response has problem details, unless your filter answers otherwise. If
 * the lease is lost, its `signal` aborts and the request fails with a 503; a response that has begun is broken off.
 *
 * Another decorator that replaces the method must stand below this one, or copy its metadata. An interceptor
 * that answers while the handler runs, such as a time limit, must be outside of the lock: on the controller, or
 * below this decorator. Only HTTP is supported: in handlers of messages or of GraphQL use `locks.request()`.
 *
 * @param options The key, how long to wait, and what to do without the lock; or the key alone.
 * @throws {TypeError|RangeError} If an option is bad, or the method has a lock already.
 *
 * @example The decorator, applied as a function
 * ```ts
 * import { Lock, type NestLockRequest } from "@holdfast/lock/http/nestjs";
 *
 * class Orders {
 *   ship() {
 *     return "shipped";
 *   }
 * }
 * const key = ({ params }: NestLockRequest) => `orders:${Number(params.id)}`;
 * const { prototype } = Orders;
 * // As a decorator: @Lock({ key, waitMs: 2_000 })
 * const descriptor = Object.getOwnPropertyDescriptor(prototype, "ship")!;
 * Lock({ key, waitMs: 2_000 })(prototype, "ship", descriptor);
 * ```
 */
export function Lock<Request = NestLockRequest>(
  options: MiddlewareOptions<[request: Request]> | string,
): MethodDecorator {
  const setRoute = SetMetadata(ROUTE, readRoute(options));
  const intercept = UseInterceptors(LockInterceptor);
  return (target, name, descriptor) => {
    if (readMetadata(descriptor.value as object | undefined) !== undefined) {
      throw new TypeError(
        `Cannot lock the method ${
          String(name)
        } twice: use one @Lock(), and a LockInterceptor for ` +
          "another lock",
      );
    }
    setRoute(target, name, descriptor);
    intercept(target, name, descriptor);
  };
}

/**
 * A decorator of a handler's parameter: the lease, or `undefined` if the request runs without one.
 *
 * @example The decorator, applied as a function
 * ```ts
 * import type { Lease } from "@holdfast/lock";
 * import { HeldLease } from "@holdfast/lock/http/nestjs";
 *
 * class Orders {
 *   ship(lease: Lease) {
 *     return `shipped under token ${lease.fencingToken}`;
 *   }
 * }
 * HeldLease()(Orders.prototype, "ship", 0); // as a decorator: ship(@HeldLease() lease: Lease)
 * ```
 */
export const HeldLease: () => ParameterDecorator = createParamDecorator(
  (_data: unknown, context: ExecutionContext) => leases.get(context.switchToHttp().getRequest()),
);

/** Checks the options, and fills in the defaults, when the program is loaded. */
function readRoute<Request>(
  options: MiddlewareOptions<[request: Request]> | string,
): MiddlewareSettings<[request: never]> {
  return readOptions("the lock of a NestJS handler", options, MIDDLEWARE_OPTIONS);
}

/** The route's lock. Never passes a request without a lock because its decorator was not found. */
function routeOf(context: NestLockContext): MiddlewareSettings<[request: never]> {
  const route = context.getType() === "http" ? readMetadata(context.getHandler()) : undefined;
  if (route !== undefined) return route;
  throw new LockSetupError(
    `Cannot lock ${context.getClass().name}.${context.getHandler().name}(): it is not a handler of HTTP ` +
      "with @Lock(), and the LockInterceptor has no options",
  );
}

function readMetadata(
  handler: object | undefined,
): MiddlewareSettings<[request: never]> | undefined {
  const { getMetadata } = Reflect as unknown as {
    getMetadata(key: string, target: object): MiddlewareSettings<[request: never]> | undefined;
  };
  return handler && getMetadata(ROUTE, handler);
}

/** The response of Node: that of Express is one. */
function responseOf(platform: PlatformResponse): ShieldedResponse {
  return platform.raw ?? platform as unknown as ShieldedResponse;
}

/** Also sets the headers of the answer; not those of a response that has begun, where Express would throw. */
function exceptionOf(
  { status, headers, body }: Problem,
  platform: PlatformResponse,
  cause: unknown,
): HttpException {
  if (!responseOf(platform).headersSent) {
    for (const name of BODY_HEADERS) platform.removeHeader(name);
    for (const [name, value] of Object.entries(headers)) platform.header(name, value);
  }
  return new HttpException(JSON.parse(body), status, { cause });
}
