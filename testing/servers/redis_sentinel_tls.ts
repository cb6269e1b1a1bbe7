/**
 * Starts sentinels and servers with TLS, certificates of clients, and users that have the rights of the
 * docs, for tests.
 *
 * @module
 */
import { rm, writeFile } from "node:fs/promises";
import { ASK, LEAVE, QUERY, RENEW, STEAL } from "../../redis/protocol/scripts.ts";
import {
  aclRules,
  CLIENT_RIGHTS,
  clientRules,
  commandRights,
  type TopologyClientName,
} from "../redis/acl_rule.ts";
import { makeTempDirectory } from "../runtime/temporary_files.ts";
import { makeAuthority } from "./certificates.ts";
import { startRedisSentinels } from "./redis_sentinel.ts";

/** Sentinels, and the files of their clients. */
export interface SecureSentinels extends AsyncDisposable {
  readonly port: number;
  /** The texts of `ca.pem`, `client.pem` and `client-key.pem`. */
  readonly files: Readonly<Record<string, string>>;
}

/** Starts them. The user of the locks is `locks`, that of the sentinels `watcher`. */
export async function startSecureSentinels(password: string): Promise<SecureSentinels> {
  await using authority = await makeAuthority();
  const { ca } = authority;
  const server = await authority.issue({ name: "server", hosts: ["IP:127.0.0.1"] });
  const client = await authority.issue({ name: "client" });
  await using stack = new AsyncDisposableStack();
  const directory = await makeTempDirectory();
  stack.defer(() => rm(directory, { recursive: true }));
  const paths = { ca: "ca.pem", cert: "server.pem", key: "server-key.pem" };
  for (const [name, text] of Object.entries({ ca, ...server })) {
    await writeFile(`${directory}/${paths[name as keyof typeof paths]}`, text);
  }
  const { primary, replica, sentinels, sentinelCommand } = stack.use(
    await startRedisSentinels({
      ca: `${directory}/${paths.ca}`,
      cert: `${directory}/${paths.cert}`,
      key: `${directory}/${paths.key}`,
    }),
  );
  const rules = aclRules(commandRights([ASK, LEAVE, QUERY, RENEW, STEAL]), "lock:");
  const user = (name: string) => ["ACL", "SETUSER", name, "on", `>${password}`];
  for (const { command } of [primary, replica]) await command(...user("locks"), ...rules);
  await sentinelCommand(...user("watcher"), "resetchannels", ...rulesOfSentinels());
  const owned = stack.move();
  return {
    port: sentinels[0]!.port,
    files: { "ca.pem": ca, "client.pem": client.cert, "client-key.pem": client.key },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** The rules for all clients that ask sentinels. */
function rulesOfSentinels(): string[] {
  const clients = Object.keys(CLIENT_RIGHTS) as TopologyClientName[];
  const rules = clients.filter((name) => name.endsWith("sentinel"))
    .flatMap((name) => clientRules(name));
  // Redis refuses a channel for a user who may use all of them.
  return rules.filter((rule) => !rule.startsWith("&"));
}
