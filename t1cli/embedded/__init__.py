"""The CPU engine: a tiny MoE actor and critic, an inference server that speaks SGLang's /generate, a PPO trainer.

It consumes the same TrainingRow and calls the same rooms as production; it is no second training framework.
"""
