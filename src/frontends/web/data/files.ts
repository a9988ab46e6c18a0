import { signal } from '@preact/signals';
import { formatBytes, words } from '../text/wording.ts';
import { request, requestJson, sessionPath } from './api.ts';
import { describeProblem } from './session.ts';

/** An entry of `GET …/files`. */
export type ListedFile = {
  name: string;
  path: string;
  type: 'file' | 'folder' | 'link' | 'other';
  bytes: number | null;
  modified: string;
};

/** A preview of a file. Text is shown unchanged, and never as HTML. */
export type Preview = { bytes: number } & (
  | { kind: 'text'; text: string; shown: number }
  | { kind: 'image'; source: string }
  | { kind: 'binary' }
);

/** How much of a text is shown, and the largest image, in bytes. */
const MAX_SHOWN = { text: 256 * 1024, image: 8 * 1024 * 1024 };

/** Image types by their first bytes. Only pixel formats: an SVG, which may contain scripts, is shown as text. */
const IMAGES: ReadonlyArray<readonly [type: string, begin: RegExp]> = [
  ['image/png', /^\x89PNG/],
  ['image/jpeg', /^\xff\xd8\xff/],
  ['image/gif', /^GIF8/],
  ['image/webp', /^RIFF....WEBP/s],
];
const IMAGE_NAME = /\.(?:png|jpe?g|gif|webp)$/i;

const fileAddress = (session: string, path: string): string =>
  sessionPath(session, `/files/${path.split('/').map(encodeURIComponent).join('/')}`);

export const readFolder = (
  session: string,
  path: string,
  ends: AbortSignal,
): Promise<{ entries: readonly ListedFile[]; complete: boolean }> =>
  requestJson(
    sessionPath(session, `/files${path === '' ? '' : `?folder=${encodeURIComponent(path.replace(/\/$/, ''))}`}`),
    { signal: ends },
  );

/** Reads only as much of a file as is shown. */
export async function readPreview(session: string, path: string, ends: AbortSignal): Promise<Preview> {
  const enough = new AbortController();
  const response = await request(fileAddress(session, path), { signal: AbortSignal.any([ends, enough.signal]) });
  const bytes = Number(response.headers.get('Content-Length'));
  if (IMAGE_NAME.test(path) && bytes > MAX_SHOWN.image) {
    enough.abort();
    return { kind: 'binary', bytes };
  }
  const begin = await readBegin(response, IMAGE_NAME.test(path) ? MAX_SHOWN.image : MAX_SHOWN.text);
  enough.abort();
  const head = String.fromCharCode(...begin.subarray(0, 16));
  const [type] = IMAGES.find(([, pattern]) => pattern.test(head)) ?? [];
  if (type !== undefined && begin.length === bytes)
    return { kind: 'image', bytes, source: await asDataAddress(new Blob([begin], { type })) };
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(begin, { stream: begin.length < bytes });
    if (!text.includes('\0')) return { kind: 'text', text, bytes, shown: begin.length };
  } catch {
    // Not UTF-8.
  }
  return { kind: 'binary', bytes };
}

async function readBegin(response: Response, most: number): Promise<Uint8Array<ArrayBuffer>> {
  const reader = response.body?.getReader();
  const begin = new Uint8Array(most);
  let size = 0;
  while (size < most) {
    const { value, done } = (await reader?.read()) ?? { value: undefined, done: true };
    if (done || value === undefined) break;
    begin.set(value.subarray(0, most - size), size);
    size = Math.min(most, size + value.length);
  }
  return begin.slice(0, size);
}

const asDataAddress = (blob: Blob): Promise<string> =>
  new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(String(reader.result));
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(blob);
  });

/** How long the blob URL of a download stays valid. */
const DOWNLOAD_MS = 60_000;

/** Saves a file. A plain link would be refused, because it cannot send the page's key. */
export async function downloadFile(session: string, path: string): Promise<void> {
  const blob = await (await request(fileAddress(session, path))).blob();
  const href = URL.createObjectURL(blob);
  Object.assign(document.createElement('a'), { href, download: path.split('/').at(-1) }).click();
  setTimeout(() => URL.revokeObjectURL(href), DOWNLOAD_MS);
}

/** A file to attach to the next message. `sent`: where it has been uploaded, so that it is not uploaded twice. */
export type PendingFile = {
  file: File;
  isSending: boolean;
  problem: string | undefined;
  sent: { session: string; attachment: string } | undefined;
};

/** Pending files by session; '' is the session that is being created. */
export const pendingFiles = signal<Readonly<Record<string, readonly PendingFile[]>>>({});

const MAX_UPLOAD = 100 * 1024 * 1024;

export function attachFiles(session: string, files: Iterable<File>): void {
  const added = [...files].map((file): PendingFile => {
    return { file, isSending: false, problem: sizeProblem(file), sent: undefined };
  });
  setPending(session, [...pendingOf(session), ...added]);
}

function sizeProblem({ name, size }: File): string | undefined {
  return size > MAX_UPLOAD ? words.value.tooLarge(name, formatBytes(MAX_UPLOAD)) : undefined;
}

export const detachFile = (session: string, file: File): void =>
  setPending(
    session,
    pendingOf(session).filter((one) => one.file !== file),
  );

export const detachAll = (session: string): void => setPending(session, []);

/** Uploads the pending files of `from` to a session; returns the `attachments` of the message. */
export async function uploadPending(from: string, session: string): Promise<string[]> {
  const attachments: string[] = [];
  for (const { file, sent } of pendingOf(from)) {
    if (sent?.session === session) {
      attachments.push(sent.attachment);
      continue;
    }
    const problem = sizeProblem(file);
    if (problem !== undefined) throw new Error(problem);
    update(from, file, { isSending: true, problem: undefined });
    try {
      const path = sessionPath(session, `/uploads?name=${encodeURIComponent(file.name)}`);
      const { attachment } = await requestJson<{ attachment: string }>(path, { method: 'POST', file });
      update(from, file, { isSending: false, sent: { session, attachment } });
      attachments.push(attachment);
    } catch (error) {
      update(from, file, { isSending: false, problem: describeProblem(error) });
      throw error;
    }
  }
  return attachments;
}

const pendingOf = (session: string): readonly PendingFile[] => pendingFiles.peek()[session] ?? [];

const setPending = (session: string, files: readonly PendingFile[]): void => {
  pendingFiles.value = { ...pendingFiles.peek(), [session]: files };
};

const update = (session: string, file: File, changes: Partial<PendingFile>): void =>
  setPending(
    session,
    pendingOf(session).map((one) => (one.file === file ? { ...one, ...changes } : one)),
  );
