import { conformance, conformanceOfWaiting } from "../../testing/conformance/suite.ts";
import {
  type HarnessServer,
  zooKeeperHarness,
} from "../../testing/conformance/zookeeper_harness.ts";
import { makeAuthority } from "../../testing/servers/certificates.ts";
import {
  startSecureZooKeeper,
  zooKeeperEnsembleSkip,
} from "../../testing/servers/zookeeper_ensemble.ts";

async function start(): Promise<HarnessServer> {
  await using authority = await makeAuthority();
  const { ca } = authority;
  const hosts = ["IP:127.0.0.1"];
  const certificate = await authority.issue({ name: "server", hosts });
  const client = await authority.issue({ name: "client" });
  const server = await startSecureZooKeeper({ certificate, ca, needsClientCertificate: true });
  return Object.assign(server, {
    rootPath: `/holdfast-test-${crypto.randomUUID()}`,
    secureConnectString: `127.0.0.1:${server.securePort}`,
    tls: { ca, ...client },
  });
}

/** The soak runs the whole suite. */
const register = Deno.env.get("HOLDFAST_SOAK") ? conformance : conformanceOfWaiting;
register(zooKeeperHarness("zookeeper with TLS", start, await zooKeeperEnsembleSkip()));
