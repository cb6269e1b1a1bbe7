import { Buffer } from "node:buffer";
import { createPrivateKey, X509Certificate } from "node:crypto";
import { isIP } from "node:net";
import type { ConnectionOptions } from "node:tls";

/** TLS settings, as `node:tls` takes them. */
export interface ZooKeeperTls {
  /**
   * The certificates, in PEM, of the authorities that the servers' certificates are checked against.
   *
   * @default those that the runtime trusts
   */
  ca?: string | Uint8Array | readonly (string | Uint8Array)[];
  /** The client's certificate in PEM, with its chain if there is one. It needs `key`. */
  cert?: string | Uint8Array;
  /** The private key of `cert` in PEM, not encrypted. */
  key?: string | Uint8Array;
  /**
   * The host name that the servers' certificates must have.
   *
   * @default the host name or IP address of each server in the connect string
   */
  servername?: string;
  /**
   * Whether to refuse a server whose certificate is not valid. With `false` anybody in the network can
   * pose as a server, and read `auth`.
   *
   * @default {true}
   */
  rejectUnauthorized?: boolean;
}

const MEMBERS: ReadonlySet<string> = new Set([
  "ca",
  "cert",
  "key",
  "servername",
  "rejectUnauthorized",
]);

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/**
 * Checks TLS settings. Deno would ignore a certificate or a key that it cannot read, and connect without. The error
 * messages do not show the values, which may be secrets.
 */
export function readTls(tls: ZooKeeperTls): ConnectionOptions {
  const unknown = Object.keys(tls).filter((name) => !MEMBERS.has(name));
  if (unknown.length > 0) {
    const members = [...MEMBERS].join(", ");
    throw new TypeError(cannotUse(`it has ${unknown.join(", ")}: only ${members} are known`));
  }
  const { servername, rejectUnauthorized = true, ca, cert, key } = tls;
  if (typeof rejectUnauthorized !== "boolean") {
    throw new TypeError(cannotUse("its 'rejectUnauthorized' is not a boolean"));
  }
  if (servername !== undefined) checkServername(servername);
  return {
    rejectUnauthorized,
    ...servername === undefined ? {} : { servername },
    ...ca === undefined ? {} : { ca: readAuthorities(ca) },
    ...readIdentity(cert, key),
  };
}

function checkServername(servername: unknown): void {
  if (typeof servername !== "string") {
    throw new TypeError(cannotUse("its 'servername' is not a string"));
  }
  if (servername === "" || isIP(servername) !== 0) {
    throw new RangeError(cannotUse("its 'servername' is not a host name"));
  }
}

function readAuthorities(ca: NonNullable<ZooKeeperTls["ca"]>): string[] {
  const texts = (Array.isArray(ca) ? ca : [ca]).map((item) => readText("ca", item));
  if (texts.length === 0) throw new RangeError(cannotUse("its 'ca' is empty"));
  for (const text of texts) readCertificates("ca", text);
  return texts;
}

function readIdentity(certPem: unknown, keyPem: unknown): ConnectionOptions {
  if (certPem === undefined && keyPem === undefined) return {};
  if (certPem === undefined || keyPem === undefined) {
    throw new TypeError(cannotUse("it needs both 'cert' and 'key', or neither"));
  }
  const cert = readText("cert", certPem);
  const key = readText("key", keyPem);
  const [first] = readCertificates("cert", cert);
  // OpenSSL would ask for the password at the terminal.
  if (key.includes("ENCRYPTED")) throw unreadable("key");
  const privateKey = readable("key", () => createPrivateKey(key));
  if (!first!.checkPrivateKey(privateKey)) {
    throw new RangeError(cannotUse("its 'key' is not the key of its 'cert'"));
  }
  return { cert, key };
}

function readText(member: string, value: unknown): string {
  if (typeof value === "string") return value;
  if (value instanceof Uint8Array) return Buffer.from(value).toString("latin1");
  throw new TypeError(cannotUse(`its '${member}' is neither a string nor a Uint8Array`));
}

function readCertificates(member: string, text: string): X509Certificate[] {
  const blocks = text.match(CERTIFICATE) ?? [];
  if (blocks.length === 0) throw unreadable(member);
  return blocks.map((block) => readable(member, () => new X509Certificate(block)));
}

function readable<T>(member: string, read: () => T): T {
  try {
    return read();
  } catch {
    throw unreadable(member);
  }
}

function unreadable(member: string): RangeError {
  const what = member === "key" ? "no private key, or an encrypted one" : "no certificate";
  return new RangeError(cannotUse(`its '${member}' is ${what}. It must be PEM`));
}

function cannotUse(reason: string): string {
  return `Cannot use 'tls': ${reason}`;
}
