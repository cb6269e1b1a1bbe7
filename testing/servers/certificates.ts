/**
 * Makes certificates for tests, with openssl. Nothing is kept.
 *
 * @module
 */
import { readFile, rm, writeFile } from "node:fs/promises";
import { makeTempDirectory } from "../runtime/temporary_files.ts";
import { runCommand } from "./command.ts";
import { CONDITION_BOUND_MS } from "../time.ts";

const NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];

/** A certificate and its private key, in PEM. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

/** The content of a certificate. */
export interface CertificateRequest {
  /** The common name of its subject. */
  readonly name: string;
  /** The host names and addresses that it is for, as OpenSSL takes them: `DNS:localhost`. */
  readonly hosts?: readonly string[];
  /** Whether it is valid no more. */
  readonly isExpired?: boolean;
}

/** Signs certificates. Disposal deletes its files. */
export interface Authority extends AsyncDisposable {
  /** Its own certificate in PEM. */
  readonly ca: string;
  issue(request: CertificateRequest): Promise<Certificate>;
}

/** Makes an authority. */
export async function makeAuthority(): Promise<Authority> {
  const directory = await makeTempDirectory();
  const run = (...args: string[]) => openssl(directory, args);
  const read = (name: string) => readFile(`${directory}/${name}`, "utf8");
  const subject = `/CN=Test authority ${crypto.randomUUID()}`;
  await run("req", "-x509", ...NEW_KEY, "-keyout", "ca.key", "-out", "ca.pem", "-subj", subject);
  return {
    ca: await read("ca.pem"),
    async issue({ name, hosts = ["DNS:client"], isExpired = false }) {
      const file = crypto.randomUUID();
      const request = ["-keyout", `${file}.key`, "-out", `${file}.csr`, "-subj", `/CN=${name}`];
      await run("req", "-new", ...NEW_KEY, ...request);
      await writeFile(`${directory}/${file}.ext`, `subjectAltName=${hosts.join()}\n`);
      // A file of serial numbers could not be used by several commands at once.
      const serial = `0x${file.replaceAll("-", "")}`;
      const signer = ["-CA", "ca.pem", "-CAkey", "ca.key", "-set_serial", serial];
      const content = ["-days", isExpired ? "-1" : "2", "-extfile", `${file}.ext`];
      const files = ["-in", `${file}.csr`, "-out", `${file}.pem`];
      await run("x509", "-req", ...files, ...signer, ...content);
      return { cert: await read(`${file}.pem`), key: await read(`${file}.key`) };
    },
    [Symbol.asyncDispose]: () => rm(directory, { recursive: true }),
  };
}

async function openssl(cwd: string, args: readonly string[]): Promise<void> {
  const { success, output } = await runCommand(["openssl", ...args], CONDITION_BOUND_MS, { cwd });
  if (!success) throw new Error(`openssl failed; it must be installed. Its output: ${output}`);
}
