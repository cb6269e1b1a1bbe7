/**
 * The transport without a strategy above it, for tests.
 *
 * @module
 */
import { openNodeZooKeeperClient } from "../../zookeeper/connection/node_zookeeper_client.ts";
import type {
  TransportOptions,
  TransportState,
  ZooKeeperTransport,
} from "../../zookeeper/connection/transport.ts";
import type { Children } from "../../zookeeper/connection/wire.ts";
import {
  childrenRequest,
  createRequest,
  deleteRequest,
  setRequest,
} from "../../zookeeper/connection/wire.ts";
import { waitUntil } from "../servers/wait.ts";
import { CONDITION_BOUND_MS, KEPT_SESSION_MS, scaled } from "../time.ts";

/** A transport, with the requests that tests send. */
export interface OpenTransport extends ZooKeeperTransport, Disposable {
  createPersistent(path: string): Promise<string>;
  createEphemeral(path: string): Promise<string>;
  children(path: string): Promise<Children>;
  /** Sent as a heartbeat is. */
  set(path: string): Promise<void>;
  delete(path: string): Promise<void>;
}

/**
 * Opens a session with a server of this machine, or opens a transport until it has another state. Disposal
 * destroys the transport.
 */
export async function openTransport(
  port: number,
  { until = "connected", ...options }: Partial<TransportOptions> & { until?: TransportState } = {},
): Promise<OpenTransport> {
  const transport = openNodeZooKeeperClient({
    listServers: () => Promise.resolve([{ host: "127.0.0.1", port }]),
    tls: undefined,
    warn: () => {},
    sessionTimeoutMs: KEPT_SESSION_MS,
    auth: undefined,
    requestTimeoutMs: undefined,
    unavailableAfterMs: scaled(5_000),
    ...options,
  });
  await waitUntil(`the transport is ${until}`, () => transport.state === until, CONDITION_BOUND_MS);
  const { requests } = transport;
  return Object.assign(transport, {
    createPersistent: (path: string) =>
      requests.send(createRequest(path, null, "persistent", true)),
    createEphemeral: (path: string) =>
      requests.send(createRequest(path, null, "ephemeral", true), true),
    children: (path: string) => requests.send(childrenRequest(path)),
    set: (path: string) => requests.send(setRequest(path), true),
    delete: (path: string) => requests.send(deleteRequest(path)),
    [Symbol.dispose]: () => transport.destroy(),
  });
}
