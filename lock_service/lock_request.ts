/**
 * What the requests to the lock service say: path, owner and body, checked.
 *
 * @module
 */
import { checkName, MAX_OWNER_ID_LENGTH, MIN_TTL_MS } from "../../core/validate.ts";
import { badRequest, isHttpError, RequestError } from "./request_error.ts";
import type { Authorization, LockRoutesRequest } from "../../lock_service/lock_routes.ts";

/** What clients may ask for, in ms. */
export interface Limits {
  readonly defaultTtlMs: number;
  readonly maxTtlMs: number;
  readonly maxWaitMs: number;
}

/** What is asked, and who says who asks. */
export interface Asked {
  readonly request: LockRoutesRequest;
  readonly limits: Limits;
  /** The principal, or `null`. */
  readonly authorize: (authorization: Authorization) => string | null | Promise<string | null>;
}

/** Not what changes in a URL that is made shorter: "." and "..". */
const ID = /^(?!\.{1,2}$)[A-Za-z0-9._~-]{1,128}$/;

/** The lock that is asked about by one who may. */
export async function keyOf(asked: Asked): Promise<string> {
  const [key, ...rest] = segmentsOf(asked.request);
  if (rest.join("") !== "") throw notAllowed(asked.request);
  const name = checkedKey(key);
  await principalOf(asked, { action: "query", key: name });
  return name;
}

/** The lock, and the owner id that a request speaks for. No principal has a ":", so it ends there. */
export async function ownerOf(
  asked: Asked,
  action: Authorization["action"],
): Promise<{ key: string; ownerId: string }> {
  const [key, id, ...rest] = segmentsOf(asked.request);
  const name = checkedKey(key);
  if (id === undefined || rest.length > 0) throw notAllowed(asked.request);
  if (!ID.test(id)) {
    throw badRequest("The id must be 1 to 128 characters of A-Z a-z 0-9 . _ ~ - (not . or ..)");
  }
  const principal = await principalOf(asked, { action, key: name });
  const ownerId = `${encodeURIComponent(principal)}:${id}`;
  if (ownerId.length > MAX_OWNER_ID_LENGTH) throw new Error("The principal is too long");
  return { key: name, ownerId };
}

async function principalOf({ authorize }: Asked, authorization: Authorization): Promise<string> {
  let principal: unknown;
  try {
    principal = await authorize(authorization);
  } catch (error) {
    if (isHttpError(error)) throw error;
    throw new Error("The hook 'authorize' has failed", { cause: error }); // whatever it looks like
  }
  if (typeof principal === "string" && principal !== "") return principal;
  const detail = "The request is not authorized";
  throw new RequestError("forbidden", { status: 403, title: "Forbidden", detail });
}

/** What follows `/lock/` in the URL, in parts, decoded one by one: a key may hold a "/". */
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

/** Which methods are there for a path. */
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
  { request: { body }, limits }: Asked,
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
