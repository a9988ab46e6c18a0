import { Lexer, type MarkedToken, type Token, type Tokens } from 'marked';
import { type ComponentChildren, Fragment, h } from 'preact';
import { words } from '../text/wording.ts';

/** Longer texts are shown as plain text, because parsing them would block the page. */
const MAX_MARKDOWN = 200_000;
/** Makes scrollable elements focusable, so that they can be scrolled by keyboard. */
export const FOCUSABLE = { tabIndex: 0 };
const LINK_SCHEMES = new Set(['http:', 'https:', 'mailto:']);

/**
 * Renders a model's text as elements. Nothing is treated as HTML: the lexer's tokens become elements one by one, HTML
 * tokens stay text, an image becomes a link (loading it would send its URL to a server), and a link needs an explicit
 * `http:`, `https:` or `mailto:`. Line breaks are kept, because replies have one line per fact.
 */
export function renderMarkdown(text: string): ComponentChildren {
  if (text.length > MAX_MARKDOWN) return <pre {...FOCUSABLE}>{text}</pre>;
  return renderAll(new Lexer({ gfm: true, breaks: true }).lex(text));
}

const renderAll = (tokens: readonly Token[] | undefined): ComponentChildren =>
  (tokens ?? []).map((token) => render(token as MarkedToken));

function render(token: MarkedToken): ComponentChildren {
  switch (token.type) {
    case 'space':
    case 'def':
      return null;
    case 'heading':
      // Below the heading levels of the page.
      return h(`h${Math.min(6, token.depth + 3)}`, null, renderAll(token.tokens));
    case 'paragraph':
      return <p>{renderAll(token.tokens)}</p>;
    case 'text':
      return 'tokens' in token && token.tokens ? renderAll(token.tokens) : decodeEntities(token.text);
    case 'escape':
      return decodeEntities(token.text);
    case 'strong':
      return <strong>{renderAll(token.tokens)}</strong>;
    case 'em':
      return <em>{renderAll(token.tokens)}</em>;
    case 'del':
      return <del>{renderAll(token.tokens)}</del>;
    case 'br':
      return <br />;
    case 'hr':
      return <hr />;
    case 'codespan':
      return <code>{decodeEntities(token.text)}</code>;
    case 'code':
      return (
        <pre {...FOCUSABLE}>
          <code>{token.text}</code>
        </pre>
      );
    case 'blockquote':
      return <blockquote>{renderAll(token.tokens)}</blockquote>;
    case 'list':
      return renderList(token);
    case 'link':
      return renderLink(token.href, renderAll(token.tokens));
    case 'image':
      return renderLink(token.href, `${words.value.markdown.image}: ${token.text || token.href}`);
    case 'table':
      return renderTable(token);
    default:
      return token.raw;
  }
}

function renderList({ ordered, start, items }: Tokens.List): ComponentChildren {
  const entries = items.map((item) => (
    <li>
      {item.task && (
        <span>{item.checked ? `☑ (${words.value.markdown.done}) ` : `☐ (${words.value.markdown.open}) `}</span>
      )}
      {renderAll(item.tokens.filter((one) => one.type !== 'checkbox'))}
    </li>
  ));
  if (!ordered) return <ul>{entries}</ul>;
  return <ol {...(typeof start === 'number' && start !== 1 && { start })}>{entries}</ol>;
}

function renderTable({ header, rows }: Tokens.Table): ComponentChildren {
  return (
    <section class="wide" {...FOCUSABLE} aria-label={words.value.markdown.table}>
      <table>
        <thead>
          <tr>
            {header.map((cell) => (
              <th scope="col">{renderAll(cell.tokens)}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr>
              {row.map((cell) => (
                <td>{renderAll(cell.tokens)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function renderLink(href: string, content: ComponentChildren): ComponentChildren {
  if (!isLink(href)) return <Fragment>{content}</Fragment>;
  return (
    <a href={href} rel="noopener noreferrer nofollow" target="_blank">
      {content}
    </a>
  );
}

/** A URL without a scheme would be relative to this server. */
function isLink(href: string): boolean {
  if (!/^[a-z]+:/i.test(href)) return false;
  try {
    return LINK_SCHEMES.has(new URL(href).protocol);
  } catch {
    return false;
  }
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&amp;': '&',
  '&lt;': '<',
  '&gt;': '>',
  '&quot;': '"',
  '&#39;': "'",
};

const decodeEntities = (text: string): string =>
  text.replace(/&(?:amp|lt|gt|quot|#39);/g, (entity) => ENTITIES[entity] ?? entity);
