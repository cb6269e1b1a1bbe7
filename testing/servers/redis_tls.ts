/**
 * Starts a Redis server that also speaks TLS and asks its clients for certificates, for tests.
 *
 * @module
 */
import { rm, writeFile } from "node:fs/promises";
import { makeTempDirectory } from "../runtime/temporary_files.ts";
import { makeAuthority } from "./certificates.ts";
import { runCommand } from "./command.ts";
import { freeClusterPort, freePort } from "./ports.ts";
import { type RedisCommand, startRedis } from "./redis.ts";
import { localRedisSource } from "./redis_sentinel.ts";
import { CONDITION_BOUND_MS } from "../time.ts";

/** Printed by a server that knows TLS and has no port; another one rejects the option. */
const NO_PORT = "not listen anywhere";

/** A server, and the files of its clients. */
export interface RedisTls extends AsyncDisposable {
  readonly securePort: number;
  /** Sends a command, without TLS. */
  readonly command: RedisCommand;
  /** The texts of `ca.pem`, `client.pem` and `client-key.pem`. */
  readonly files: Readonly<Record<string, string>>;
}

/** Why no server with TLS can be started on this machine; `undefined` if it can. */
export async function redisTlsSkip(): Promise<string | undefined> {
  const source = await localRedisSource();
  if (source === undefined) return "the server must read files, so redis-server must be installed";
  const command = [...source.command, "--port", "0", "--tls-port", "0"];
  const { output } = await runCommand(command, CONDITION_BOUND_MS);
  return output.includes(NO_PORT) ? undefined : "this redis-server was built without TLS";
}

/**
 * Starts a server with certificates of its own.
 *
 * @param isCluster Whether it is a cluster of one node, which tells its clients the port with TLS.
 */
export async function startRedisTls(isCluster = false): Promise<RedisTls> {
  await using authority = await makeAuthority();
  const { ca } = authority;
  const [server, client] = await Promise.all([
    authority.issue({ name: "server", hosts: ["IP:127.0.0.1"] }),
    authority.issue({ name: "client" }),
  ]);
  await using stack = new AsyncDisposableStack();
  const directory = await makeTempDirectory();
  stack.defer(() => rm(directory, { recursive: true }));
  const files = { "ca.pem": ca, "server.pem": server.cert, "server-key.pem": server.key };
  for (const [name, text] of Object.entries(files)) await writeFile(`${directory}/${name}`, text);
  const choosePort = isCluster ? freeClusterPort : freePort;
  const securePort = choosePort();
  const args = [
    ...["--tls-port", String(securePort), "--tls-ca-cert-file", `${directory}/ca.pem`],
    ...["--tls-cert-file", `${directory}/server.pem`],
    ...["--tls-key-file", `${directory}/server-key.pem`],
    ...isCluster ? ["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"] : [],
    ...isCluster ? ["--tls-cluster", "yes", "--tls-replication", "yes"] : [],
  ];
  const source = (await localRedisSource())!;
  const { command } = stack.use(await startRedis({ args, source, choosePort }));
  if (isCluster) await command("CLUSTER", "ADDSLOTS", ...Array(16_384).keys());
  const owned = stack.move();
  return {
    securePort,
    command,
    files: { "ca.pem": ca, "client.pem": client.cert, "client-key.pem": client.key },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
