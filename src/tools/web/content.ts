import { isUtf8 } from 'node:buffer';
import { binaryKind, KIND_BYTES } from '../../protocol/file-kind.ts';

/** What a body is: `html` and `pdf` are converted, `text` is shown as it came, `binary` is only named. */
export type Content = { is: 'html' | 'pdf' | 'text' } | { is: 'binary'; kind: string };

/** Judged by its beginning where that is plain, by the server's word otherwise; `type` is the header, which may be empty. */
export function contentOf(bytes: Buffer, type: string): Content {
  const mime = type.split(';')[0]?.trim().toLowerCase() ?? '';
  const start = bytes.subarray(0, KIND_BYTES);
  if (start.toString('latin1', 0, 5) === '%PDF-') return { is: 'pdf' };
  const wide = /charset\s*=\s*["']?utf-16/i.test(type) || /^(?:\xff\xfe|\xfe\xff)/.test(start.toString('latin1', 0, 2));
  const kind = wide ? undefined : binaryKind(start)?.kind;
  if (kind) return { is: 'binary', kind: kind === 'of an unknown type' && mime !== '' ? mime : kind };
  if (mime === 'text/html' || mime === 'application/xhtml+xml') return { is: 'html' };
  if (isTextType(mime)) return { is: 'text' };
  if (/^(?:image|audio|video|font)\//.test(mime)) return { is: 'binary', kind: mime };
  // No type, or one that says nothing.
  if (/^\s*<(?:!doctype html|html|head|body)\b/i.test(start.toString('latin1'))) return { is: 'html' };
  return isUtf8(bytes) ? { is: 'text' } : { is: 'binary', kind: mime || 'of an unknown type' };
}

/** Types that are text by their name: the `text` family, and what is written in JSON, XML, YAML or a programming language. */
function isTextType(mime: string): boolean {
  return (
    mime.startsWith('text/') ||
    /^(?:application|image)\/(?:.+\+)?(?:json|xml|yaml)$/.test(mime) ||
    /^application\/(?:(?:x-)?(?:javascript|ecmascript|yaml|ndjson|sh|toml)|sql|graphql)$/.test(mime)
  );
}
