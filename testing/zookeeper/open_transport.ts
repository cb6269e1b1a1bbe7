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
import { waitUntil } from "../servers/wait.ts";
import { CONDITION_BOUND_MS, KEPT_SESSION_MS, scaled } from "../time.ts";

/**
 * Opens a session with a server of this machine, or opens a transport until it has another state. Disposal
 * destroys the transport.
 */
export async function openTransport(
  port: number,
  { until = "connected", ...options }: Partial<TransportOptions> & { until?: TransportState } = {},
): Promise<ZooKeeperTransport & Disposable> {
  const transport = openNodeZooKeeperClient({
    listServers: () => Promise.resolve([{ host: "127.0.0.1", port }]),
    tls: undefined,
    warnings: { warn: () => {} },
    sessionTimeoutMs: KEPT_SESSION_MS,
    auth: undefined,
    requestTimeoutMs: undefined,
    unavailableAfterMs: scaled(5_000),
    ...options,
  });
  await waitUntil(`the transport is ${until}`, () => transport.state === until, CONDITION_BOUND_MS);
  return Object.assign(transport, { [Symbol.dispose]: () => transport.destroy() });
}
