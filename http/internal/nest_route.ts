/**
 * The options of a route of NestJS, and the parts of its calls that are used. Which route a request belongs
 * to is in `http/nestjs.ts`.
 *
 * @module
 */
import type { ResultSource } from "./held_call.ts";
import type { LockKey } from "./key.ts";
import type { MethodOptions } from "./methods.ts";
import { type HoldOptions, type HoldSettings, MIDDLEWARE_OPTIONS, readOptions } from "./options.ts";

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

/** The part of Nest's `CallHandler` that is used. */
export interface NestLockCall {
  /** The results of the handler, as an observable. */
  handle(): ResultSource;
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

/** Options of {@linkcode Lock} and of {@linkcode LockInterceptor}. */
export interface NestLockOptions<Request = NestLockRequest> extends HoldOptions, MethodOptions {
  /** The name of the lock for a request; {@linkcode NO_LOCK} if it needs none. */
  key: LockKey<[request: Request]>;
}

/** The lock of a route, with its defaults filled in. */
export interface NestRoute {
  readonly key: LockKey<[request: never]>;
  readonly settings: HoldSettings;
  readonly unlocked: readonly string[];
}

/**
 * Fills in the defaults and checks the options when the program is loaded.
 *
 * @throws {TypeError|RangeError} If an option is bad.
 */
export function readNestRoute<Request>(options: NestLockOptions<Request> | string): NestRoute {
  const settings = readOptions("the lock of a NestJS handler", options, MIDDLEWARE_OPTIONS);
  return { key: settings.key, settings, unlocked: settings.unlockedMethods };
}
