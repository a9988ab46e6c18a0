import type { Context, Hono, MiddlewareHandler } from 'hono';
import type { Client } from '../../client/index.ts';
import type { Reply } from '../../protocol/session/reply.ts';
import { DAEMON_AGENT } from '../../protocol/settings/model-settings.ts';
import { HttpProblem, problemOf } from '../http/common/http-problem.ts';
import { type HttpEnv, type HttpServices, jsonAnswer, readJson } from '../http/common/operation.ts';
import { sseResponse } from '../http/common/sse-response.ts';
import type { HttpProtocol } from '../http/server/http-app.ts';
import {
  type CompletionHead,
  chatCompletion,
  chatFrames,
  parseResponseId,
  type ResponseHead,
  responseFrames,
  responseIdOf,
  wholeResponse,
} from './answer-formats.ts';
import { type AnswerPiece, answerPieces, collectAnswer, type WholeAnswer } from './follow-answer.ts';
import { type OpenAiAnswer, secondsNow, sendRequest } from './openai-answer.ts';
import {
  OpenAiProblem,
  type OpenAiRequest,
  openAiError,
  openAiErrorResponse,
  readChatRequest,
  readResponseRequest,
} from './openai-requests.ts';
import { chooseSession, MODEL, SIDE_PREFIX, sentMessages } from './session-choice.ts';

const MAX_MODELS = 50;
/** A request that is not streamed is answered after this time with the progress of the run. */
const ANSWER_WITHIN_MS = 100_000;
/** nginx's status for a client that closed the connection. */
const CLIENT_GONE = 499;
/** How long to look in the event log for the reply of a run that a message joined; the run may still be active. */
const FIND_WITHIN_MS = 1000;

/** The routes below `/v1` of `agentctl serve --openai`. */
export const OPENAI_PROTOCOL: HttpProtocol = openAiProtocol();

/** `answerWithinMs` is for tests. */
export function openAiProtocol({ answerWithinMs = ANSWER_WITHIN_MS } = {}): HttpProtocol {
  return {
    below: '/v1/',
    serves: 'GET /v1/models, POST /v1/chat/completions, POST /v1/responses or GET /v1/responses/{id}',
    problemResponse: openAiErrorResponse,
    addRoutes: (app, servicesOf) => addRoutes(app, servicesOf, answerWithinMs),
  };
}

type ServicesOf = Parameters<HttpProtocol['addRoutes']>[1];

function addRoutes(app: Hono<HttpEnv>, servicesOf: ServicesOf, answerWithinMs: number): void {
  app.use('/v1/*', refuseDaemons);
  app.get('/v1/models', (c) =>
    jsonAnswer({ object: 'list', data: modelNames(c.get('client'), MAX_MODELS).map(modelObject) }),
  );
  app.get('/v1/models/:id{.+}', (c) => {
    const id = c.req.param('id');
    if (modelNames(c.get('client'), Number.POSITIVE_INFINITY).includes(id)) return jsonAnswer(modelObject(id));
    throw new OpenAiProblem(
      404,
      { wanted: 'a model of GET /v1/models', came: JSON.stringify(id), todo: `Use ${MODEL}, or ${MODEL}/<session>.` },
      { param: 'model', code: 'model_not_found' },
    );
  });
  app.post('/v1/chat/completions', async (c) => {
    const request = readChatRequest(await readJson(c));
    const head = ({ sent }: OpenAiAnswer): CompletionHead => ({
      ...{ id: `chatcmpl-${sent.id}`, created: secondsNow(), model: request.model },
    });
    return respond(c, servicesOf(c), request, {
      answerWithinMs,
      whole: (answer, whole) => chatCompletion(head(answer), whole),
      frames: (answer, pieces) => chatFrames(head(answer), pieces, request),
    });
  });
  app.post('/v1/responses', async (c) => {
    const request = readResponseRequest(await readJson(c));
    const { model, previous, metadata, background } = request;
    const head = ({ sent: { session, id: message } }: OpenAiAnswer): ResponseHead => ({
      ...{ id: responseIdOf({ session, message }), created: secondsNow(), model, previous, metadata, background },
    });
    return respond(c, servicesOf(c), request, {
      answerWithinMs,
      whole: (answer, whole) => wholeResponse(head(answer), whole),
      frames: (answer, pieces) => responseFrames(head(answer), pieces),
    });
  });
  app.get('/v1/responses/:id', async (c) =>
    jsonAnswer(await storedResponse(c.get('client'), c.req.param('id'), c.req.raw.signal)),
  );
}

/** A run that waits for a model that is this server waits for a run that waits for it, and holds up all others. */
const refuseDaemons: MiddlewareHandler = async (c, next) => {
  if (c.req.header('user-agent') !== DAEMON_AGENT) return next();
  throw new OpenAiProblem(400, {
    wanted: 'a program that uses agentd as its model',
    came: 'a daemon of agentd, whose model would be agentd itself',
    todo: 'Give the daemon another base_url, and start it without this OPENAI_BASE_URL: agentctl restart --base-url … --model …',
  });
};

/** How one of the two APIs writes an answer. */
type AnswerForm = {
  answerWithinMs: number;
  whole(answer: OpenAiAnswer, whole: WholeAnswer): object;
  frames(answer: OpenAiAnswer, pieces: AsyncGenerator<AnswerPiece, Reply>): AsyncGenerator<string>;
};

/** Answers a request as one body or as a stream. If the client disconnects, the run continues. */
async function respond(
  c: Context,
  services: HttpServices,
  request: OpenAiRequest,
  form: AnswerForm,
): Promise<Response> {
  const chosen = await chooseSession(services.client, { request, header: (name) => c.req.header(name) });
  const answer = await sendRequest(services, chosen);
  const signal = AbortSignal.any([c.req.raw.signal, services.closing]);
  const headers: Record<string, string> = chosen.isSide
    ? {}
    : { 'x-agentd-session': encodeURIComponent(answer.sent.session) };
  if (request.stream && !request.background)
    return sseResponse((ends) => streamed(services, answer, form, ends), signal, headers);
  try {
    const waitMs = request.background ? 0 : form.answerWithinMs;
    const whole = await answer.whole({ waitMs, signal });
    void answer.finish(whole.reply !== undefined && !signal.aborted);
    return jsonAnswer(form.whole(answer, whole), 200, headers);
  } catch (error) {
    void answer.finish(false);
    if (services.closing.aborted) throw serverEnds();
    // Nobody is left to answer.
    if (signal.aborted) return new Response(null, { status: CLIENT_GONE });
    throw error;
  }
}

/** The frames of a stream. An error after its start is sent as its last frame. */
async function* streamed(
  { closing, complain }: HttpServices,
  answer: OpenAiAnswer,
  form: AnswerForm,
  signal: AbortSignal,
): AsyncGenerator<string> {
  let isDelivered = false;
  try {
    yield* form.frames(answer, answerPieces(answer.items(signal)));
    isDelivered = !signal.aborted;
  } catch (error) {
    if (signal.aborted && !closing.aborted) return;
    const fault = openAiError(closing.aborted ? serverEnds() : problemOf(error, complain));
    // Chat completion streams have no named events, so the error is in the data, where clients of both APIs look.
    yield `data: ${JSON.stringify({ ...fault, type: 'error', error: fault })}\n\n`;
  } finally {
    void answer.finish(isDelivered);
  }
}

const serverEnds = (): HttpProblem =>
  new HttpProblem(503, {
    wanted: 'an answer',
    came: 'the end of the server; the run continues',
    todo: 'Send the same again: it is the same message, and gets its reply.',
  });

/** `GET /v1/responses/{id}`: the reply to the message in the id, or a response in progress. */
async function storedResponse(client: Client, id: string, signal: AbortSignal): Promise<object> {
  const place = parseResponseId(id);
  const sent = place ? await sentMessages(client, place.session, place.message) : [];
  const message = sent.find((one) => one.id === place?.message);
  if (!place || !message)
    throw new OpenAiProblem(
      404,
      { wanted: 'the id of a response of this server', came: JSON.stringify(id), todo: 'It may have been removed.' },
      { code: 'response_not_found' },
    );
  const isReplied = message.state === 'replied' || message.state === 'read';
  const whole = isReplied
    ? await collectAnswer(client, { ...message, session: place.session, after: 0 }, { waitMs: FIND_WITHIN_MS, signal })
    : { reply: undefined, text: '', activity: [] };
  const created = message.at === '' ? secondsNow() : Math.floor(Date.parse(message.at) / 1000);
  const head = { id, created, model: `${MODEL}/${place.session}`, previous: null, metadata: {}, background: false };
  return wholeResponse(head, whole);
}

const modelObject = (id: string): object => ({ id, object: 'model', created: 0, owned_by: MODEL });

/** agentd itself, then its sessions, the most recently changed first. */
function modelNames(client: Client, most: number): string[] {
  const names = client.newestSessions(most).filter((name) => !name.startsWith(SIDE_PREFIX));
  return [MODEL, ...names.map((name) => `${MODEL}/${name}`)];
}
