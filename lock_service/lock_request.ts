/**
 * Reads and checks the path, the owner and the body of a request. The actions are in `lock_actions.ts`.
 *
 * @module
 */
import {
  checkName,
  MAX_OWNER_ID_LENGTH,
  MIN_TTL_MS,
  SHARED_OWNER_ID,
} from "../core/contract/options.ts";
import { isHttpError } from "../http/shared/problem.ts";
import type { NodeResponse } from "../http/shared/server.ts";
import type { LockRoutesRequest } from "./fastify_types.ts";
import type { Authorization, readOptions } from "./options.ts";
import { badRequest, challenged, RequestError, unauthorized } from "./request_error.ts";

export interface LockRequest {
  readonly request: LockRoutesRequest;
  readonly response: NodeResponse;
  readonly settings: ReturnType<typeof readOptions>;
}

/** The form of an id. Not "." or "..", which clients remove from a URL when they normalise it. */
const ID = /^(?!\.{1,2}$)[A-Za-z0-9._~-]{1,128}$/;

/** The lock of a request, and the owner of the lease that it asks for. */
export interface Owner {
  readonly key: string;
  /** The encoded principal, a ":" and the id. An encoded principal has no ":", so none can collide. */
  readonly ownerId: string;
}

/** Returns the name of the lock. Authorizes the request before. */
export async function keyOf(lockRequest: LockRequest): Promise<string> {
  const [key, ...rest] = segmentsOf(lockRequest.request);
  if (rest.join("") !== "") throw notAllowed(lockRequest.request);
  const name = checkedKey(key);
  await principalOf(lockRequest, { action: "query", key: name });
  return name;
}

/** Returns the lock and its owner. Authorizes the request before. */
export async function ownerOf(
  lockRequest: LockRequest,
  action: Authorization["action"],
): Promise<Owner> {
  const [key, id, ...rest] = segmentsOf(lockRequest.request);
  const name = checkedKey(key);
  if (id === undefined || rest.length > 0) throw notAllowed(lockRequest.request);
  if (!ID.test(id)) {
    throw badRequest("The id must be 1 to 128 characters of A-Z a-z 0-9 . _ ~ - (not . or ..)");
  }
  const principal = await principalOf(lockRequest, { action, key: name });
  const ownerId = `${encodeURIComponent(principal)}:${id}`;
  if (ownerId === SHARED_OWNER_ID) throw badRequest("This id is reserved: choose another one");
  if (ownerId.length > MAX_OWNER_ID_LENGTH) {
    throw new Error(
      `Cannot use the principal of 'authorize' as it is too long: with the id, an owner id of ` +
        `${ownerId.length} characters, where ${MAX_OWNER_ID_LENGTH} are allowed`,
    );
  }
  return { key: name, ownerId };
}

async function principalOf(
  { request, settings: { authorize, challenge } }: LockRequest,
  authorization: Authorization,
): Promise<string> {
  let principal: unknown;
  try {
    principal = await authorize(request, authorization);
  } catch (error) {
    if (isHttpError(error)) throw error.statusCode === 401 ? challenged(error, challenge) : error;
    // Wrapped, so that it is not taken for an error of the lock, such as a RangeError for a bad key.
    const why = error instanceof Error ? error.message : String(error);
    throw new Error(`Cannot authorize a request as the hook 'authorize' threw: ${why}`, {
      cause: error,
    });
  }
  if (typeof principal === "string" && principal !== "") return principal;
  if (principal === undefined) throw unauthorized(challenge);
  const detail = `This request may not ${authorization.action} the lock`;
  throw new RequestError("forbidden", { status: 403, title: "Forbidden", detail });
}

/** Returns the segments of the URL after `/lock/`. Each is decoded alone: a key may contain a "/". */
function segmentsOf({ raw, routeOptions }: LockRoutesRequest): string[] {
  const path = (raw.url ?? "").replace(/[?#].*$/s, "").replace(/^https?:\/\/[^/]*/i, "");
  const before = (routeOptions.url ?? "/lock/*").split("/").length - 2;
  const rest = path.replace(new RegExp(`^(?:/+[^/]+){${before}}/`), "");
  const parts = rest.split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      throw badRequest("The path of the URL must be percent-encoded UTF-8");
    }
  });
  // Some clients and routers add a "/" to every path.
  return parts.length === 3 && parts[2] === "" ? parts.slice(0, 2) : parts;
}

function checkedKey(key: string | undefined): string {
  try {
    checkName(key);
    return key;
  } catch {
    throw badRequest(`The key must have 1 to 1000 characters: it has ${key?.length ?? 0}`);
  }
}

/** The error for a path that does not exist, or does not allow the method. */
export function notAllowed(request: LockRoutesRequest): RequestError {
  const [, ...rest] = segmentsOf(request);
  const isOfKey = rest.join("") === ""; // as in `keyOf()`
  if (rest.length > 1 && !isOfKey) {
    const detail = 'No such path: if the key contains a "/", write it as %2F';
    return new RequestError("not-found", { status: 404, title: "Not found", detail });
  }
  const allow = isOfKey ? "GET, HEAD" : "PUT, PATCH, DELETE";
  const path = isOfKey ? "/lock/:key" : "/lock/:key/:id";
  const detail = `${path} allows only ${allow}`;
  const details = { status: 405, title: "Method not allowed", detail, headers: { allow } };
  return new RequestError("method-not-allowed", details);
}

/** What a request asks for in its body. */
export interface Terms {
  readonly ttlMs: number;
  readonly waitMs: number;
}

/** Returns the fields of the body in ms, with their defaults. The body may be empty. */
export function readBody(
  { request: { body }, settings }: LockRequest,
  allowed: readonly (keyof Terms)[],
): Terms {
  const fields = body === undefined || body === null || body === "" ? {} : parse(String(body));
  for (const [name, value] of Object.entries(fields)) {
    if (!(allowed as readonly string[]).includes(name)) {
      const known = allowed.map((field) => `'${field}'`).join(" and ") || "none";
      throw badRequest(`The field ${JSON.stringify(name)} is not known here (known: ${known})`);
    }
    checkField(name as keyof Terms, value, settings);
  }
  return { ttlMs: settings.defaultTtlMs, waitMs: 0, ...fields };
}

function parse(text: string): Partial<Terms> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw badRequest("The body is not valid JSON");
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
  throw badRequest("The body must be a JSON object");
}

function checkField(
  name: keyof Terms,
  value: unknown,
  { maxTtlMs, maxWaitMs }: LockRequest["settings"],
): void {
  const [min, max] = name === "ttlMs" ? [MIN_TTL_MS, maxTtlMs] : [0, maxWaitMs];
  if (Number.isInteger(value) && (value as number) >= min && (value as number) <= max) return;
  throw badRequest(`The field '${name}' must be a whole number of ms from ${min} to ${max}`);
}
