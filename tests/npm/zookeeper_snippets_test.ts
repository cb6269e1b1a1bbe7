import { snippetSuite } from "../../testing/docs/snippet_suite.ts";
import { afterAll, beforeAll } from "../../testing/runtime/tests.ts";
import { makeAuthority } from "../../testing/servers/certificates.ts";
import { startZooKeeper, type ZooKeeperServer } from "../../testing/servers/zookeeper.ts";

/** One server for all: to start it takes much longer than to run a snippet. */
let server: ZooKeeperServer;
/** The files that a snippet with TLS reads. */
let files: Record<string, string>;

beforeAll(async () => {
  await using authority = await makeAuthority();
  const { ca } = authority;
  const [certificate, client] = await Promise.all([
    authority.issue({ name: "server", hosts: ["IP:127.0.0.1"] }),
    authority.issue({ name: "client" }),
  ]);
  files = { "ca.pem": ca, "client.pem": client.cert, "client-key.pem": client.key };
  server = await startZooKeeper({ tls: { certificate, ca, needsClientCertificate: true } });
});
afterAll(async () => await server[Symbol.asyncDispose]());

await snippetSuite("zookeeper", {
  start: () => Promise.resolve(shared(server.connectString)),
});
await snippetSuite("zookeeper-tls", {
  start: () => Promise.resolve({ ...shared(`127.0.0.1:${server.securePort}`), files }),
});

function shared(address: string) {
  return { address, [Symbol.asyncDispose]: () => Promise.resolve() };
}
