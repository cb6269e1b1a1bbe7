/**
 * A decorator and an interceptor for NestJS that hold a lock while a route is handled, with Express or
 * Fastify below. How a call keeps the lock is in `internal/held_call.ts`.
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
  SetMetadata,
  UseInterceptors,
  // Any version: it must be that of the application.
} from "npm:@nestjs/common@x";
import { Observable } from "npm:rxjs@^7.1.0";
import type { DistributedLock, Lease } from "../core/contract/distributed_lock.ts";
import { LockSetupError } from "../core/contract/errors.ts";
import { acquireForRequest } from "./internal/acquire.ts";
import { type ShieldedResponse, shieldOf } from "./internal/handler_shield.ts";
import { HeldCall } from "./internal/held_call.ts";
import { isNoLock, keyOf } from "./internal/key.ts";
import {
  type NestLockCall,
  type NestLockContext,
  type NestLockOptions,
  type NestLockRequest,
  type NestRoute,
  readNestRoute,
} from "./internal/nest_route.ts";
import { BODY_HEADERS, CLIENT_GONE, leaseLost, type Problem } from "./internal/problem.ts";
import { holdsOf, RequestHolds } from "./internal/request_holds.ts";
import { ResponseWatch } from "./internal/response_watch.ts";

export { type LockKey, NO_LOCK, type NoLock } from "./internal/key.ts";
export type { MethodOptions } from "./internal/methods.ts";
export type { ResultObserver, ResultSource } from "./internal/held_call.ts";
export type {
  NestLockCall,
  NestLockContext,
  NestLockOptions,
  NestLockRequest,
} from "./internal/nest_route.ts";

/**
 * The token of the lock that {@linkcode Lock} uses:
 * `{ provide: LOCKS, useFactory: () => new RedisLock(…) }`. Without it, the application does not start.
 */
export const LOCKS: symbol = Symbol.for("@holdfast/lock/LOCKS");

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
  readonly #route: NestRoute | undefined;

  /**
   * Makes an interceptor: Nest does so for `@Lock()`.
   *
   * @param lock Any strategy.
   * @param options The key and other options, or the key alone. Without them, those of `@Lock()`.
   * @throws {TypeError|RangeError} If an option is bad.
   */
  constructor(lock: DistributedLock, options?: NestLockOptions | string) {
    if (typeof lock?.acquire !== "function") {
      throw new TypeError("Cannot make a LockInterceptor as 'lock' is not a lock: pass a strategy");
    }
    this.#lock = lock;
    this.#route = options === undefined ? undefined : readNestRoute(options);
  }

  /**
   * Acquires the lock, and returns the results of the handler, which runs under it.
   *
   * @throws {HttpException} With problem details, if the request does not get the lock.
   * @throws {LockSetupError} If the lock cannot work as it is set up.
   */
  // deno-lint-ignore no-explicit-any -- an observable of rxjs, whose types are not ours to publish
  async intercept(context: NestLockContext, next: NestLockCall): Promise<any> {
    const { key, settings, unlocked } = this.#route ?? routeOf(context);
    const http = context.switchToHttp();
    const request = http.getRequest<NestLockRequest>();
    if (unlocked.includes(request.method)) return next.handle();
    const name = await keyOf(key, request as never);
    if (isNoLock(name)) return next.handle();
    const platform = http.getResponse<PlatformResponse>();
    const response = platform.raw ?? platform as unknown as ShieldedResponse;
    const shield = shieldOf(response);
    const watch = new ResponseWatch(response, shield.destroy);
    const requester = { holds: new RequestHolds(holdsOf(response), this.#lock), gone: watch.gone };
    const acquired = await acquireForRequest(this.#lock, name, settings, requester);
    if (acquired.state === "unlocked") return next.handle();
    if (acquired.state === "gone") throw new HttpException("The client has left", CLIENT_GONE);
    if (acquired.state === "failed") throw exceptionOf(acquired.problem, platform, acquired.cause);
    const { lease } = acquired;
    leases.set(request, lease);
    const { fencingHeader } = settings;
    if (fencingHeader !== undefined) platform.header(fencingHeader, String(lease.fencingToken));
    const lossError = () => exceptionOf(leaseLost(), platform, lease.signal.reason);
    const call = new HeldCall(lease, { response, shield, watch }, settings, lossError);
    return new Observable((subscriber) => call.run(next.handle(), subscriber));
  }
}

// As the decorator of the parameter does: this module must not need a compiler for decorators.
Inject(LOCKS)(LockInterceptor, undefined, 0);

/**
 * Locks a route: at most one request per key is handled at a time, across all processes, HEAD and OPTIONS
 * excepted. The lock is that of {@linkcode LOCKS}; {@linkcode HeldLease} gives the handler its lease.
 *
 * The lock is acquired after the guards, and before the pipes and the handler. It is held until the handler
 * has ended (its promise or its observable), and the response is complete (streams and server-sent events
 * too) or the client has disconnected. A handler that answers with `@Res()` must return a promise that lasts
 * as long as its work. A client that disconnects while it waits leaves the queue.
 *
 * A request that does not get the lock within `waitMs` fails with an `HttpException` with the status 409 and
 * `Retry-After`, and 503 if the lock service is out of reach; its response are problem details, unless a
 * filter of yours answers otherwise. If the lease is lost, its `signal` aborts and the request fails with a
 * 503; a response that has begun is broken off.
 *
 * Another decorator that replaces the method must stand below this one, or copy its metadata. An
 * interceptor that answers while the handler runs, such as a time limit, must be outside of the lock: on the
 * controller, or below this decorator. Only HTTP is supported: in handlers of messages or of GraphQL use
 * `locks.request()`.
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
  options: NestLockOptions<Request> | string,
): MethodDecorator {
  const setRoute = SetMetadata(ROUTE, readNestRoute(options));
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

/** The route's lock. Never passes a request without a lock because its decorator was not found. */
function routeOf(context: NestLockContext): NestRoute {
  const route = context.getType() === "http" ? readMetadata(context.getHandler()) : undefined;
  if (route !== undefined) return route;
  throw new LockSetupError(
    `Cannot lock ${context.getClass().name}.${context.getHandler().name}(): it is not a handler of HTTP ` +
      "with @Lock(), and the LockInterceptor has no options",
  );
}

function readMetadata(handler: object | undefined): NestRoute | undefined {
  const { getMetadata } = Reflect as unknown as {
    getMetadata(key: string, target: object): NestRoute | undefined;
  };
  return handler && getMetadata(ROUTE, handler);
}

/** Sets the headers of a problem, and returns the exception that Nest answers with it. */
function exceptionOf(
  { status, headers, body }: Problem,
  platform: PlatformResponse,
  cause: unknown,
): HttpException {
  for (const name of BODY_HEADERS) platform.removeHeader(name);
  for (const [name, value] of Object.entries(headers)) platform.header(name, value);
  return new HttpException(JSON.parse(body), status, { cause });
}
