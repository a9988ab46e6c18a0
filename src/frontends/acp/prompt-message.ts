import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ContentBlock } from '@agentclientprotocol/sdk';
import { UserError } from '../../base/user-error.ts';

/** A prompt as a message. `discard` removes the files that were made for it. */
export type PromptMessage = { text: string; files: string[]; discard(): void };

/**
 * Text in its order, and everything else as attachments that are named in the text. Throws UserError for audio, which
 * no tool of the agent takes.
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
    // Each in a folder of its own: two may have one name.
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

/** The path that a link names, where there is a regular file. */
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
  try {
    return basename(decodeURIComponent(path));
  } catch {
    return basename(path);
  }
}

/** A file name of bounded length without separators; a leading dot would hide the file. */
function plainName(name: string): string {
  const plain = name.replace(/[/\0]/g, '_').replace(/^\.+/, '').slice(-100);
  return plain === '' ? 'attachment.txt' : plain;
}
