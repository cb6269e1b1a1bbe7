/**
 * A small Redis connection for observers in tests: RESP2, one command at a time, no reconnect.
 *
 * @module
 */

import { connectTcp, connectTls, type Socket } from "../runtime/sockets.ts";
import { closer, writeAll } from "./raw_sockets.ts";

/** One connection to a Redis server. */
export interface RespConnection extends Disposable {
  /** False once the connection has failed or was closed. */
  readonly isOpen: boolean;
  /** Sends a command and resolves with its reply; rejects with the server's error. */
  command(...args: (string | number)[]): Promise<unknown>;
  /** Sends several commands at once; resolves with their replies, including errors. */
  pipeline(commands: (string | number)[][]): Promise<unknown[]>;
  /** Waits for a pushed message, such as one of a subscription. */
  next(): Promise<unknown>;
}

/** Connects, authenticates and selects the database as the URL says. */
export async function connectResp(url: string, signal?: AbortSignal): Promise<RespConnection> {
  const { protocol, username, password, pathname } = new URL(url);
  const socket = protocol === "rediss:"
    ? await connectTls(redisAddress(url))
    : await connectTcp(redisAddress(url), signal);
  const connection = respConnection(socket, signal);
  try {
    if (password !== "") {
      const user = username === "" ? [] : [decodeURIComponent(username)];
      await connection.command("AUTH", ...user, decodeURIComponent(password));
    }
    const database = pathname.slice(1);
    if (database !== "") await connection.command("SELECT", database);
  } catch (error) {
    connection[Symbol.dispose]();
    throw error;
  }
  return connection;
}

/** The address in a Redis URL. */
export function redisAddress(url: string): { hostname: string; port: number } {
  const { hostname, port } = new URL(url);
  return { hostname: hostname.replace(/^\[|\]$/g, ""), port: Number(port || 6379) };
}

function respConnection(socket: Socket, signal?: AbortSignal): RespConnection {
  const readReply = replyReader(socket);
  const closing = closer(socket, signal);
  let last: Promise<unknown> = Promise.resolve();
  const guard = async <T>(work: () => Promise<T>) => {
    if (!closing.isOpen) throw new Error("The connection is closed");
    try {
      return await work();
    } catch (error) {
      closing[Symbol.dispose]();
      throw error;
    }
  };
  const exchange = (commands: (string | number)[][]) =>
    guard(async () => {
      await writeAll(socket, encodeCommands(commands));
      const replies: unknown[] = [];
      while (replies.length < commands.length) replies.push(await readReply());
      return replies;
    });
  const pipeline = (commands: (string | number)[][]) => {
    const turn = last.then(() => exchange(commands));
    last = turn.catch(() => {});
    return turn;
  };
  return {
    get isOpen() {
      return closing.isOpen;
    },
    pipeline,
    next: () => guard(readReply),
    async command(...args) {
      const [reply] = await pipeline([args]);
      if (reply instanceof Error) throw reply;
      return reply;
    },
    [Symbol.dispose]: () => closing[Symbol.dispose](),
  };
}

function encodeCommands(commands: (string | number)[][]): Uint8Array {
  const encoder = new TextEncoder();
  const encode = (arg: string | number) => {
    const text = String(arg);
    return `$${encoder.encode(text).length}\r\n${text}\r\n`;
  };
  const texts = commands.map((args) => `*${args.length}\r\n${args.map(encode).join("")}`);
  return encoder.encode(texts.join(""));
}

/** Reads one reply after the other. Error replies are returned, as they may be items of arrays. */
function replyReader(socket: Socket): () => Promise<unknown> {
  const source = byteReader(socket);
  const readReply = async (): Promise<unknown> => {
    const line = await source.readLine();
    const rest = line.slice(1);
    switch (line[0]) {
      case "+":
        return rest;
      case "-":
        return new Error(rest);
      case ":":
        return Number(rest);
      case "$":
        return rest === "-1" ? null : await source.readText(Number(rest));
      case "*": {
        if (rest === "-1") return null;
        const items: unknown[] = [];
        for (let left = Number(rest); left > 0; left--) items.push(await readReply());
        return items;
      }
      default:
        throw new Error(`Unexpected reply from the Redis server: ${line}`);
    }
  };
  return readReply;
}

interface ByteReader {
  readLine(): Promise<string>;
  /** Reads this many bytes and the line end after them. */
  readText(length: number): Promise<string>;
}

function byteReader(socket: Socket): ByteReader {
  const chunk = new Uint8Array(16_384);
  let bytes = new Uint8Array(0);
  const fill = async () => {
    const count = await socket.read(chunk);
    if (count === null) throw new Error("The Redis server closed the connection");
    const joined = new Uint8Array(bytes.length + count);
    joined.set(bytes);
    joined.set(chunk.subarray(0, count), bytes.length);
    bytes = joined;
  };
  const take = (length: number) => {
    const text = new TextDecoder().decode(bytes.subarray(0, length));
    bytes = bytes.slice(length + 2);
    return text;
  };
  return {
    async readLine() {
      let end: number;
      while ((end = bytes.indexOf(0x0d)) === -1 || end + 1 >= bytes.length) await fill();
      return take(end);
    },
    async readText(length) {
      while (bytes.length < length + 2) await fill();
      return take(length);
    },
  };
}
