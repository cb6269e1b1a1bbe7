/**
 * The parts that the order endpoints of all frameworks share: the command line, the lock, and the
 * shipment of an order, which must happen once.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- these are commands
import { tmpdir } from "node:os";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import type { DistributedLock, Lease } from "@holdfast/lock";
import { openLock } from "@holdfast/lock/open";
import { FencedStore } from "../fenced_store.ts";

const USAGE =
  `POST /orders/42 ships an order, and only once, however many requests any process gets.
The locks are in files of this user, or where HOLDFAST_URL says.

  --port N      the port to listen on (8000 by default, 0 for any free port)
  --db FILE     the file that records shipments (in the temporary directory by default)
  --work-ms N   how long a shipment takes, in ms (200 by default)`;

/** The answer: 201 if this request shipped the order, 200 if an earlier one did, 409 if its lease is over. */
export interface Shipment {
  readonly status: 200 | 201 | 409;
  readonly body: { readonly order: string; readonly state: string };
}

/** The parts that an endpoint needs. */
export interface Shop extends AsyncDisposable {
  readonly locks: DistributedLock;
  readonly port: number;
  /** Resolves at Ctrl-C or SIGTERM. */
  readonly closing: Promise<unknown>;
  ship(order: string, lease: Lease): Promise<Shipment>;
}

/**
 * Returns the number of the order in a path. The path is decoded and the number is validated: an order
 * has many URLs (`/orders/42`, `/orders/%34%32`, `/orders/42/`), but must have one lock.
 *
 * @throws {URIError} If the path cannot be decoded: the client gets a 400.
 * @throws {Error} If there is no such order: its `statusCode` makes that a 404.
 */
export function orderIn(path: string): string {
  const order = /^\/orders\/([1-9][0-9]*)\/?$/.exec(decodeURIComponent(path))?.[1];
  if (order !== undefined) return order;
  throw Object.assign(new Error("No such order"), { statusCode: 404 });
}

/** Opens the shop with the options of the command line. */
export async function openShop(): Promise<Shop> {
  const { values } = parseArgs({
    options: {
      port: { type: "string", default: "8000" },
      db: { type: "string", default: `${tmpdir()}/holdfast-orders.db` },
      "work-ms": { type: "string", default: "200" },
      help: { type: "boolean" },
    },
  });
  if (values.help) {
    console.log(USAGE);
    Deno.exit(0);
  }
  const { promise: closing, resolve } = Promise.withResolvers<void>();
  for (const signal of ["SIGINT", "SIGTERM"] as const) Deno.addSignalListener(signal, resolve);
  const resources = new AsyncDisposableStack();
  const store = resources.use(new FencedStore(values.db));
  const locks = resources.use(await openLock(Deno.env.get("HOLDFAST_URL") ?? "file:"));
  return {
    locks,
    port: Number(values.port),
    closing,
    async ship(order, lease) {
      const { signal, fencingToken } = lease;
      const key = `orders:${order}`;
      const late = { status: 409, body: { order, state: "somebody else was later" } } as const;
      // Before the read: an earlier holder that was frozen must not write after it.
      if (!store.raise(key, fencingToken)) return late;
      if (store.read(key)?.value === "shipped") {
        return { status: 200, body: { order, state: "shipped before" } };
      }
      await pause(Number(values["work-ms"]), undefined, { signal }); // throws if the lease is lost
      lease.throwIfLost(); // after a freeze, the signal may not have aborted yet
      // The process can be frozen even between these two lines: then the store refuses its token.
      if (!store.write(key, "shipped", fencingToken)) return late;
      console.log(`shipped ${order} under token ${fencingToken}`);
      return { status: 201, body: { order, state: "shipped" } };
    },
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}
