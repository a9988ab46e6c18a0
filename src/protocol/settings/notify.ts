import { z } from 'zod';
import { EnvVariableName } from './env-variable.ts';

/** What a notice is about. */
export const NoticeKind = z.enum(['done', 'failed', 'paused', 'waiting', 'owed']);
export type NoticeKind = z.infer<typeof NoticeKind>;

const WebAddress = z.url({ protocol: /^https?$/, error: 'expected an address with http:// or https://' }).max(2000);

/** Who is notified, in `agentd.json`. */
export const NotifyTarget = z
  .strictObject({
    webhook: WebAddress.optional().describe('The address that each notice is sent to.'),
    url_env: EnvVariableName.optional().describe('The variable with that address, where the address is a secret.'),
    secret_env: EnvVariableName.optional().describe(
      'The variable with the key of the signature: X-Agentd-Signature is "sha256=" and the HMAC-SHA256 of the body.',
    ),
    as: z
      .enum(['json', 'ntfy', 'gotify', 'slack', 'discord'])
      .optional()
      .describe('The form of the body; default json, which is a notice as in docs/schemas/notice.schema.json.'),
    for: z
      .array(NoticeKind)
      .min(1)
      .optional()
      .describe(
        'What it is told: runs that ended (done, failed, paused), what waits for you, what is owed. Default all.',
      ),
    sessions: z.array(z.string().min(1).max(200)).min(1).optional().describe('Only of these sessions.'),
  })
  .refine(({ webhook, url_env }) => (webhook === undefined) !== (url_env === undefined), {
    message: 'expected one of `webhook` and `url_env`',
  });
export type NotifyTarget = z.infer<typeof NotifyTarget>;

/** Where `agentctl serve` is reached from outside, in `agentd.json`. */
export const PublicUrl = WebAddress.describe(
  'Where `agentctl serve` is reached from outside, such as https://agent.example.org: a notice of a waiting call has a link there that answers it.',
);
