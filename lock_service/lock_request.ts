/**
 * Reads and checks the path, the owner and the body of a request to the lock service.
 *
 * @module
 */
import { checkName, MAX_OWNER_ID_LENGTH, MIN_TTL_MS } from "../core/validate.ts";
import type { LockRoutesRequest } from "./fastify_types.ts";
import type { Authorization, Limits } from "./options.ts";
import { badRequest, isHttpError, RequestError } from "./request_error.ts";

/** One request, and what it is checked with. */
export interface LockRequest {
  readonly request: LockRoutesRequest;
  readonly limits: Limits;
  /** The principal, or `null`. */
  readonly authorize: (authorization: Authorization) => string | null | Promise<string | null>;
}

/** Excludes "." and "..", which clients remove when they normalise a URL. */
const ID = /^(?!\.{1,2}$)[A-Za-z0-9._~-]{1,128}$/;

/** The name of the lock, after authorization. */
export async function keyOf(lockRequest: LockRequest): Promise<string> {
  const [key, ...rest] = segmentsOf(lockRequest.request);
  if (rest.join("") !== "") throw notAllowed(lockRequest.request);
  const name = checkedKey(key);
  await principalOf(lockRequest, { action: "query", key: name });
  return name;
}

/**
 * The lock and the owner id of a request. An encoded principal has no ":", so the first one ends it.
 */
export async function ownerOf(
  lockRequest: LockRequest,
  action: Authorization["action"],
): Promise<{ key: string; ownerId: string }> {
  const [key, id, ...rest] = segmentsOf(lockRequest.request);
  const name = checkedKey(key);
  if (id === undefined || rest.length > 0) throw notAllowed(lockRequest.request);
  if (!ID.test(id)) {
    throw badRequest("The id must be 1 to 128 characters of A-Z a-z 0-9 . _ ~ - (not . or ..)");
  }
  const principal = await principalOf(lockRequest, { action, key: name });
  const ownerId = `${encodeURIComponent(principal)}:${id}`;
  if (ownerId.length > MAX_OWNER_ID_LENGTH) throw new Error("The principal is too long");
  return { key: name, ownerId };
}

async function principalOf(
  { authorize }: LockRequest,
  authorization: Authorization,
): Promise<string> {
  let principal: unknown;
  try {
    principal = await authorize(authorization);
  } catch (error) {
    if (isHttpError(error)) throw error;
    throw new Error("The hook 'authorize' has failed", { cause: error }); // even if it looks like an HTTP error
  }
  if (typeof principal === "string" && principal !== "") return principal;
  const detail = "The request is not authorized";
  throw new RequestError("forbidden", { status: 403, title: "Forbidden", detail });
}

/** The parts of the URL after `/lock/`, decoded one by one, as a key may contain a "/". */
function segmentsOf({ raw, routeOptions }: LockRoutesRequest): string[] {
  const path = (raw.url ?? "").replace(/[?#].*$/s, "").replace(/^https?:\/\/[^/]*/i, "");
  const before = (routeOptions.url ?? "/lock/*").split("/").length - 2;
  const rest = path.replace(new RegExp(`^(?:/+[^/]+){${before}}/`), "");
  const parts = rest.split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      throw badRequest("The path is not percent-encoded UTF-8");
    }
  });
  // Some clients and routers end every path with a "/".
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

/** The error for a method that the path does not have. */
export function notAllowed(request: LockRoutesRequest): RequestError {
  const count = segmentsOf(request).length;
  if (count > 2) {
    const detail = 'A "/" in a key must stand as %2F';
    return new RequestError("not-found", { status: 404, title: "Not found", detail });
  }
  const allow = count === 1 ? "GET, HEAD" : "PUT, PATCH, DELETE";
  const path = count === 1 ? "/lock/:key" : "/lock/:key/:id";
  const detail = `For ${path} there are ${allow}`;
  const details = { status: 405, title: "Method not allowed", detail };
  return new RequestError("method-not-allowed", details, { headers: { allow } });
}

type Field = "ttlMs" | "waitMs";

/** The fields of the body, all of them numbers of ms; an empty body has none. */
export function readBody(
  { request: { body }, limits }: LockRequest,
  allowed: readonly Field[],
): { ttlMs: number; waitMs: number } {
  const fields = body === undefined || body === null || body === "" ? {} : parse(String(body));
  for (const [name, value] of Object.entries(fields)) {
    if (!(allowed as readonly string[]).includes(name)) {
      throw badRequest(`The field ${JSON.stringify(name)} is not known here`);
    }
    checkField(name as Field, value, limits);
  }
  return { ttlMs: limits.defaultTtlMs, waitMs: 0, ...fields };
}

function parse(text: string): Partial<Record<Field, number>> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw badRequest("The body is not JSON");
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
  throw badRequest("The body must be a JSON object");
}

function checkField(name: Field, value: unknown, { maxTtlMs, maxWaitMs }: Limits): void {
  const [min, max] = name === "ttlMs" ? [MIN_TTL_MS, maxTtlMs] : [0, maxWaitMs];
  if (Number.isInteger(value) && (value as number) >= min && (value as number) <= max) return;
  throw badRequest(`The field '${name}' must be a whole number of ms from ${min} to ${max}`);
}
