import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type ContentBlock, type PromptResponse, RequestError, type StopReason } from '@agentclientprotocol/sdk';
import { attempt, UserError } from '../../base/user-error.ts';
import { type Reply, RUN_END } from '../../protocol/session/reply.ts';
import type { SessionState } from './session-updates.ts';

/** How a run or a message ended. */
type Outcome = Pick<Reply, 'status' | 'text' | 'reason'>;

type PromptTurn = {
  /** The reply to its message. It does not end the turn while the run is active. */
  reply?: Reply;
  isCancelled: boolean;
  resolve: (response: PromptResponse) => void;
  reject: (error: unknown) => void;
};

/** The prompts of a session that the editor is waiting for, by the id of their message. */
export type PromptTurns = {
  ids(): string[];
  begin(id: string): { response: Promise<PromptResponse>; isCancelled: () => boolean };
  /** Notes the reply to a message; it may not be published yet. */
  addReply(message: string, reply: Reply): void;
  /** Ends the turns that are finished. `isPersonAsked`: the editor shows a question, so turns that wait for it stay. */
  endFinished(session: SessionState, isPersonAsked: boolean): void;
  /** Makes all turns end as cancelled, however their run ends. */
  markCancelled(): void;
  /** Ends the turns marked as cancelled. */
  endCancelled(): void;
  /** Ends all turns, or the one with this id, with an error. */
  fail(error: unknown, id?: string): void;
};

export function openPromptTurns(): PromptTurns {
  const turns = new Map<string, PromptTurn>();
  const end = (id: string, answer: (turn: PromptTurn) => void) => {
    const turn = turns.get(id);
    turns.delete(id);
    if (turn) answer(turn);
  };
  return {
    ids: () => [...turns.keys()],
    begin(id) {
      let turn: PromptTurn | undefined;
      const response = new Promise<PromptResponse>((resolve, reject) => {
        turn = { isCancelled: false, resolve, reject };
        turns.set(id, turn);
      });
      return { response, isCancelled: () => turn?.isCancelled === true };
    },
    addReply(message, reply) {
      const turn = turns.get(message);
      if (turn) turn.reply = reply;
    },
    endFinished(session, isPersonAsked) {
      for (const [id, { reply, isCancelled }] of turns) {
        if (!reply) continue;
        const goesOn = reply.status === 'waiting' || reply.status === 'joined';
        if (!goesOn) end(id, (turn) => respond(turn, reply));
        // A cancelled turn waits until the run has stopped.
        else if (!session.run && !isPersonAsked && !isCancelled)
          end(id, (turn) => respond(turn, session.runEnd ?? { ...reply, status: 'done' }));
      }
    },
    markCancelled() {
      for (const turn of turns.values()) turn.isCancelled = true;
    },
    endCancelled() {
      for (const [id, { isCancelled }] of turns)
        if (isCancelled) end(id, ({ resolve }) => resolve({ stopReason: 'cancelled' }));
    },
    fail(error, id) {
      for (const one of id === undefined ? [...turns.keys()] : [id]) end(one, ({ reject }) => reject(error));
    },
  };
}

/** In the range that JSON-RPC reserves for servers. */
const RUN_FAILED = -32_000;

function respond({ isCancelled, resolve, reject }: PromptTurn, { status, text, reason }: Outcome): void {
  if (isCancelled) resolve({ stopReason: 'cancelled' });
  else if (status === 'failed' || status === 'rejected') reject(new RequestError(RUN_FAILED, text, { status, reason }));
  else resolve({ stopReason: stopReasonOf(status, reason), _meta: { 'agentd/end': { status, reason } } });
}

/** ACP has no stop reason for a run that waits or was paused: the turn ends, and the text of the reply says why. */
function stopReasonOf(status: Outcome['status'], reason: string | undefined): StopReason {
  if (status === 'cancelled' || (status === 'paused' && reason === RUN_END.stopped)) return 'cancelled';
  return status === 'paused' && reason === RUN_END.limit ? 'max_turn_requests' : 'end_turn';
}

/** A prompt as a message. `discard` removes the files that were created for it. */
export type PromptMessage = { text: string; files: string[]; discard(): void };

/**
 * Text in its order, with everything else as attachments named in the text. Throws UserError for audio, which no tool
 * of the agent can read.
 */
export function promptMessage(prompt: readonly ContentBlock[]): PromptMessage {
  const words: string[] = [];
  const files: string[] = [];
  let made: string | undefined;
  const attach = (path: string) => {
    files.push(path);
    words.push(`\`${basename(path)}\``);
  };
  const write = (name: string, content: string | Buffer) => {
    made ??= fs.mkdtempSync(join(tmpdir(), 'agentd-prompt-'));
    // Each in its own folder, since two files may have the same name.
    const path = join(fs.mkdtempSync(join(made, 'file-')), plainName(name));
    fs.writeFileSync(path, content, { mode: 0o600 });
    attach(path);
  };
  const discard = () => {
    if (made !== undefined) fs.rmSync(made, { recursive: true, force: true });
  };
  try {
    for (const block of prompt) addBlock(block, { words, write, attach });
  } catch (error) {
    discard();
    throw error;
  }
  return { text: words.join(''), files, discard };
}

type MessageParts = {
  words: string[];
  write: (name: string, content: string | Buffer) => void;
  attach: (path: string) => void;
};

function addBlock(block: ContentBlock, { words, write, attach }: MessageParts): void {
  switch (block.type) {
    case 'text':
      words.push(block.text);
      return;
    case 'image':
      write(imageName(block.uri, block.mimeType), Buffer.from(block.data, 'base64'));
      return;
    case 'resource_link': {
      const path = localFile(block.uri);
      if (path === undefined) words.push(`[${block.name}](${block.uri})`);
      else attach(path);
      return;
    }
    case 'resource': {
      const { resource } = block;
      write(lastPart(resource.uri), 'text' in resource ? resource.text : Buffer.from(resource.blob, 'base64'));
      return;
    }
    case 'audio':
      throw new UserError('Expected text, images and files, got audio. Send what was spoken as text.');
    default:
      block satisfies never;
  }
}

/** The path in a `file:` link, if it is a regular file. */
function localFile(uri: string): string | undefined {
  if (!uri.startsWith('file:')) return undefined;
  try {
    const path = fileURLToPath(uri);
    return fs.statSync(path, { throwIfNoEntry: false })?.isFile() ? path : undefined;
  } catch {
    return undefined;
  }
}

function imageName(uri: string | null | undefined, mimeType: string): string {
  const [, kind = 'png'] = /^image\/([a-z0-9]+)/i.exec(mimeType) ?? [];
  return uri ? lastPart(uri) : `image.${kind === 'jpeg' ? 'jpg' : kind}`;
}

function lastPart(uri: string): string {
  const path = uri.replace(/[?#].*$/, '');
  return attempt(() => basename(decodeURIComponent(path))) ?? basename(path);
}

/** A file name of bounded length without separators; a leading dot would hide the file. */
function plainName(name: string): string {
  const plain = name.replace(/[/\0]/g, '_').replace(/^\.+/, '').slice(-100);
  return plain === '' ? 'attachment.txt' : plain;
}
