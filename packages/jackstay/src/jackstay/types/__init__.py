"""The params and results of MCP messages, in every revision, as frozen Structs.

`decode(CallToolResult, data)` parses one, `encode_json(body)` writes it, and members without a field are preserved. Use
`decode_result` for results, whose class depends on `resultType`, and `from_json` for decoded objects. Envelopes
(`jsonrpc`, `id`, `method`) are in `jackstay.protocol`.
"""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(
    __name__,
    {
        "._body": "LOGGING_LEVELS META_CLIENT_CAPABILITIES META_CLIENT_INFO META_LOG_LEVEL META_PROGRESS_TOKEN"
        " META_PROTOCOL_VERSION META_RELATED_TASK META_SERVER_INFO META_SUBSCRIPTION_ID Body BodyWithMeta Cursor"
        " JsonObject LoggingLevel ProgressToken RequestId with_members",
        "._content": "AudioContent BlobResourceContents ContentBlock EmbeddedResource ImageContent ResourceContents"
        " ResourceLink SamplingMessageContentBlock TextContent TextResourceContents ToolResultContent ToolUseContent"
        " UnknownContent",
        "._data": "WRAPPED OutputReader",
        "._decode": "decode from_json",
        "._display": "Annotations Icon Implementation Role",
        "._elicitation": "ArrayFieldSchema BooleanSchema ElicitationCompleteNotificationParams ElicitRequestFormParams"
        " ElicitRequestParams ElicitRequestURLParams ElicitResult ElicitValue EnumOption EnumSchema"
        " FormFieldSchema LegacyTitledEnumSchema MultiSelectEnumSchema NumberSchema PrimitiveSchemaDefinition"
        " RequestedSchema SingleSelectEnumSchema StringFieldSchema StringSchema TitledItems TitledMultiSelectEnumSchema"
        " TitledSingleSelectEnumSchema UnknownSchema UntitledItems UntitledMultiSelectEnumSchema"
        " UntitledSingleSelectEnumSchema URLElicitationRequiredErrorData",
        "._input_required": "CallToolRequestParams CreateMessageRequest ElicitRequest GetPromptRequestParams"
        " InputRequest InputRequests InputRequiredResult InputResponse InputResponseRequestParams InputResponses"
        " ListRootsRequest ReadResourceRequestParams UnknownRequest",
        "._json": "DECODE_ERRORS encode_json",
        "._lifecycle": "ClientCapabilities ClientTasksCapability ClientTasksRequestsCapability DiscoverResult"
        " ElicitationCapability Error InitializeRequestParams InitializeResult"
        " MissingRequiredClientCapabilityErrorData NotificationMetaObject PromptsCapability RequestMetaObject"
        " ResourcesCapability ResultMetaObject RootsCapability SamplingCapability ServerCapabilities"
        " ServerTasksCapability ServerTasksRequestsCapability SubscriptionFilter"
        " SubscriptionsAcknowledgedNotificationParams SubscriptionsListenRequestParams SubscriptionsListenResult"
        " SubscriptionsListenResultMetaObject TasksElicitationCapability TasksSamplingCapability"
        " TasksToolsCapability ToolsCapability UnsupportedProtocolVersionErrorData",
        "._messages": "CacheableResult CancelledNotificationParams EmptyResult LoggingMessageNotificationParams"
        " NotificationParams PaginatedRequestParams PaginatedResult ProgressNotificationParams RelatedTaskMetadata"
        " RequestParams Result ResultType SetLevelRequestParams TaskAugmentedRequestParams TaskMetadata",
        "._prompts": "CompleteRequestParams CompleteResult Completion CompletionArgument CompletionContext"
        " CompletionReference GetPromptResult ListPromptsResult Prompt PromptArgument PromptMessage PromptReference"
        " ResourceTemplateReference",
        "._resources": "ListResourcesResult ListResourceTemplatesResult ReadResourceResult Resource"
        " ResourceRequestParams ResourceTemplate ResourceUpdatedNotificationParams SubscribeRequestParams"
        " UnsubscribeRequestParams is_part_of",
        "._results": "decode_result result_reader",
        "._sampling": "CreateMessageRequestParams CreateMessageResult ListRootsResult ModelHint ModelPreferences Root"
        " SamplingMessage ToolChoice",
        "._tasks": "TASKS_EXTENSION CancelTaskRequestParams CancelTaskResult CreateTaskResult"
        " GetTaskPayloadRequestParams GetTaskPayloadResult GetTaskRequestParams GetTaskResult ListTasksResult Task"
        " TaskStatus TaskStatusNotificationParams UpdateTaskRequestParams UpdateTaskResult",
        "._tool_results": "CallToolResult ListToolsResult",
        "._tools": "Tool ToolAnnotations ToolExecution",
    },
)
