/**
 * What the routes of the lock service do.
 *
 * @module
 */
import type { AttachableLock, Lease } from "../core/distributed_lock.ts";
import { checkName, MAX_DURATION_MS, MAX_OWNER_ID_LENGTH, MIN_TTL_MS } from "../core/validate.ts";
import { type NodeResponse, ResponseWatch } from "./_node_response.ts";
import { badRequest, RequestError } from "./_request_error.ts";
import { remainingMs } from "./_take.ts";
import type { Authorization, LockRoutesRequest } from "./lock_routes.ts";
import { busy, type Problem } from "./problem.ts";

/** One request. */
export interface LockRequest {
  readonly lock: AttachableLock;
  readonly request: LockRoutesRequest;
  readonly response: NodeResponse;
  readonly limits: { readonly maxTtlMs: number; readonly maxWaitMs: number };
  /** The principal, or `null`. */
  readonly authorize: (authorization: Authorization) => string | null | Promise<string | null>;
}

type Answer =
  | { readonly state: "done"; readonly body: Readonly<Record<string, unknown>> }
  | { readonly state: "refused"; readonly problem: Problem };

/** Leases of the service: nobody renews them but their clients, and they outlive this process. */
const LEASE = { autoRenew: false, outlivesDisposal: true } as const;
const ID = /^[A-Za-z0-9._~-]{1,128}$/;
/** How often a lease is looked for that other servers may attach to at the same time. */
const ATTEMPTS = 3;

/** What each method does. */
export const actions = { PUT: acquire, PATCH: renew, DELETE: release, GET: query } as const;

async function acquire(asked: LockRequest): Promise<Answer> {
  const { key, ownerId } = await ownerOf(asked, "acquire");
  const { ttlMs, waitMs = 0 } = readBody(asked, ["ttlMs", "waitMs"]);
  const { gone } = new ResponseWatch(asked.response);
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const lease = await takeWithin(asked.lock, key, ownerId, waitMs, gone);
    if (lease === null) break;
    // It may be a lease that this process remembers: only the service knows whether it is held.
    if (await isRenewed(lease, ttlMs)) return described(key, lease);
  }
  return { state: "refused", problem: busy(409, await remainingMs(asked.lock, key)) };
}

async function renew(asked: LockRequest): Promise<Answer> {
  const { key, ownerId } = await ownerOf(asked, "renew");
  const { ttlMs } = readBody(asked, ["ttlMs"]);
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const lease = await asked.lock.attach(key, ownerId, LEASE);
    if (lease === null) break;
    if (await isRenewed(lease, ttlMs)) return described(key, lease);
  }
  throw notHeld();
}

async function release(asked: LockRequest): Promise<Answer> {
  const { key, ownerId } = await ownerOf(asked, "release");
  readBody(asked, []);
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const lease = await asked.lock.attach(key, ownerId, LEASE);
    if (lease === null) break;
    if (await lease.release()) return { state: "done", body: { key, released: true } };
  }
  throw notHeld();
}

async function query(asked: LockRequest): Promise<Answer> {
  const [key, ...rest] = segmentsOf(asked.request);
  if (rest.length > 0) throw notFound();
  await authorized(asked, { action: "query", key: checkedKey(key) });
  const { held, waiters } = await asked.lock.query(key!);
  const token = held?.fencingToken === undefined ? {} : { fencingToken: String(held.fencingToken) };
  const left = held?.remainingMs === undefined ? {} : { remainingMs: Math.floor(held.remainingMs) };
  const body = { key, held: held !== null, ...token, ...left, waiters: waiters.length };
  return { state: "done", body };
}

/** Waits for the lock as long as the client may and does. */
async function takeWithin(
  lock: AttachableLock,
  key: string,
  ownerId: string,
  waitMs: number,
  gone: AbortSignal,
): Promise<Lease | null> {
  const options = { ownerId, ...LEASE };
  if (waitMs === 0) return await lock.tryAcquire(key, { ...options, signal: gone });
  const over = AbortSignal.timeout(waitMs);
  try {
    return await lock.acquire(key, { ...options, signal: AbortSignal.any([gone, over]) });
  } catch (error) {
    if (gone.aborted || (over.aborted && error === over.reason)) return null;
    throw error;
  }
}

async function isRenewed(lease: Lease, ttlMs: number | undefined): Promise<boolean> {
  try {
    await lease.renew(ttlMs);
    return true;
  } catch (error) {
    if (error instanceof Error && error.name === "LeaseLostError") return false;
    if (error instanceof Error && error.name === "LockError") return false; // released meanwhile
    throw error;
  }
}

/** As text: other languages' numbers may be too small for a token. */
function described(key: string, lease: Lease): Answer {
  const { fencingToken, remainingMs } = lease;
  const body = { key, fencingToken: String(fencingToken), remainingMs: Math.floor(remainingMs) };
  return { state: "done", body };
}

/** The owner id that a request speaks for. The principal is encoded, so the first ":" ends it. */
async function ownerOf(
  asked: LockRequest,
  action: Authorization["action"],
): Promise<{ key: string; ownerId: string }> {
  const [key, id, ...rest] = segmentsOf(asked.request);
  if (id === undefined || rest.length > 0) throw notFound();
  const name = checkedKey(key);
  if (!ID.test(id)) {
    throw badRequest("The id must be 1 to 128 characters of A-Z a-z 0-9 . _ ~ -");
  }
  const principal = await authorized(asked, { action, key: name });
  const ownerId = `${encodeURIComponent(principal)}:${id}`;
  if (ownerId.length > MAX_OWNER_ID_LENGTH) throw new Error("The principal is too long");
  return { key: name, ownerId };
}

async function authorized(
  { authorize }: LockRequest,
  authorization: Authorization,
): Promise<string> {
  const principal = await authorize(authorization);
  if (typeof principal === "string" && principal !== "") return principal;
  throw new RequestError("forbidden", 403, "Forbidden", "The request is not authorized");
}

/** What follows `/lock/` in the URL, in parts, decoded one by one: a key may hold a "/". */
function segmentsOf({ raw, routeOptions }: LockRoutesRequest): string[] {
  const before = (routeOptions.url ?? "/lock/*").split("/").length - 1;
  const path = (raw.url ?? "").replace(/[?#].*$/s, "");
  return path.split("/").slice(before).map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      throw badRequest("The path is not percent-encoded UTF-8");
    }
  });
}

function checkedKey(key: string | undefined): string {
  try {
    checkName(key);
    return key;
  } catch {
    throw badRequest(`The key must have 1 to 1000 characters: it has ${key?.length ?? 0}`);
  }
}

type Field = "ttlMs" | "waitMs";

/** The fields of the body, all of them numbers of ms; an empty body has none. */
function readBody(
  { request: { body }, limits }: LockRequest,
  allowed: readonly Field[],
): Partial<Record<Field, number>> {
  if (body === undefined || body === null || body === "") return {};
  const fields = parse(String(body));
  for (const [name, value] of Object.entries(fields)) {
    if (!(allowed as readonly string[]).includes(name)) {
      throw badRequest(`The field ${JSON.stringify(name)} is not known here`);
    }
    checkField(name as Field, value, limits);
  }
  return fields;
}

function parse(text: string): Record<string, number> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw badRequest("The body is not JSON");
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    return value as Record<string, number>;
  }
  throw badRequest("The body must be a JSON object");
}

function checkField(name: Field, value: unknown, limits: LockRequest["limits"]): void {
  const isTtl = name === "ttlMs";
  const min = isTtl ? MIN_TTL_MS : 0;
  const max = Math.min(isTtl ? limits.maxTtlMs : limits.maxWaitMs, MAX_DURATION_MS);
  if (Number.isInteger(value) && (value as number) >= min && (value as number) <= max) return;
  throw badRequest(`The field "${name}" must be a whole number of ms from ${min} to ${max}`);
}

function notHeld(): RequestError {
  return new RequestError("not-held", 404, "Not held", "The lock is not held under this id");
}

function notFound(): RequestError {
  return new RequestError("not-found", 404, "Not found", "There is nothing under this path");
}
