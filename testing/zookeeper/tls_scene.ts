/**
 * Three ZooKeeper servers with TLS, and the certificates that their clients need.
 *
 * @module
 */
import type { ZooKeeperTls } from "../../zookeeper/mod.ts";
import { type Authority, type Certificate, makeAuthority } from "../servers/certificates.ts";
import {
  type EnsembleMember,
  startZooKeeperEnsemble,
  type ZooKeeperEnsemble,
} from "../servers/zookeeper_ensemble.ts";

/** The host names and addresses in the certificates of the servers. */
const HOSTS = ["DNS:localhost", "DNS:zk.test", "IP:127.0.0.1"];
/** The common name of the client's certificate. */
export const CLIENT_NAME = "billing";

/** An ensemble whose members differ in their certificates. */
export interface TlsScene extends AsyncDisposable {
  readonly ensemble: ZooKeeperEnsemble;
  /** A member with a valid certificate, which does not need one of its clients. */
  readonly valid: EnsembleMember;
  /** A member whose certificate has expired. */
  readonly expired: EnsembleMember;
  /** A member with a valid certificate, which needs one of its clients. */
  readonly strict: EnsembleMember;
  /** The settings of a client without a certificate. */
  readonly anonymous: ZooKeeperTls;
  /** The settings of a client with a certificate. */
  readonly certified: ZooKeeperTls;
  /** The settings of a client that does not know the authority of the servers. */
  readonly foreign: ZooKeeperTls;
  /** A valid certificate for the same hosts, of the same authority. */
  readonly server: Certificate;
}

/** Starts the ensemble. */
export async function startTlsScene(): Promise<TlsScene> {
  await using authority = await makeAuthority();
  await using other = await makeAuthority();
  const { ca } = authority;
  const { server, expired, client } = await certificates(authority);
  const ensemble = await startZooKeeperEnsemble({
    tlsOf: (id) => ({
      certificate: id === 2 ? expired : server,
      ca,
      needsClientCertificate: id === 3,
    }),
  });
  const [first, second, third] = ensemble.members;
  return {
    ensemble,
    valid: first!,
    expired: second!,
    strict: third!,
    anonymous: { ca },
    certified: { ca, ...client },
    foreign: { ca: other.ca },
    server,
    [Symbol.asyncDispose]: () => ensemble[Symbol.asyncDispose](),
  };
}

async function certificates(authority: Authority) {
  const [server, expired, client] = await Promise.all([
    authority.issue({ name: "server", hosts: HOSTS }),
    authority.issue({ name: "server", hosts: HOSTS, isExpired: true }),
    authority.issue({ name: CLIENT_NAME }),
  ]);
  return { server, expired, client };
}

/** The connect string of the ports with TLS. */
export function secure(...members: readonly EnsembleMember[]): string {
  return members.map(({ securePort }) => `127.0.0.1:${securePort}`).join();
}
