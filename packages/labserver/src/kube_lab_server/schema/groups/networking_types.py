"""Types of ``networking.k8s.io/v1``: ingresses, network policies, addresses of services."""

from __future__ import annotations

from typing import Final

TABLE: Final = """
= str: PolicyType PathType

kind Ingress:
    2  spec    IngressSpec
    3  status  IngressStatus

IngressSpec:
    4  ingressClassName  *str
    1  defaultBackend    *IngressBackend
    2  tls               []IngressTLS
    3  rules             []IngressRule

IngressBackend:
    4  service   *IngressServiceBackend
    3  resource  *core.TypedLocalObjectReference

IngressServiceBackend:
    1  name  str  !
    2  port  ServiceBackendPort

ServiceBackendPort: atomic
    1  name    str
    2  number  int32

IngressTLS:
    1  hosts       []str
    2  secretName  str

IngressRule:
    1  host  str
  2.1  http  *HTTPIngressRuleValue  in=IngressRuleValue

HTTPIngressRuleValue:
    1  paths  []HTTPIngressPath  !

HTTPIngressPath:
    1  path      str
    3  pathType  *PathType  !
    2  backend   IngressBackend  !

IngressStatus:
    1  loadBalancer  IngressLoadBalancerStatus

IngressLoadBalancerStatus:
    1  ingress  []IngressLoadBalancerIngress

IngressLoadBalancerIngress:
    1  ip        str
    2  hostname  str
    4  ports     []IngressPortStatus

IngressPortStatus:
    1  port      int32  !
    2  protocol  core.Protocol  !
    3  error     *str

kind IngressClass:
    2  spec  IngressClassSpec

IngressClassSpec:
    1  controller  str
    2  parameters  *IngressClassParametersReference

IngressClassParametersReference:
    1  apiGroup   *str
    2  kind       str  !
    3  name       str  !
    4  scope      *str  +
    5  namespace  *str

kind NetworkPolicy:
    2  spec  NetworkPolicySpec

NetworkPolicySpec:
    1  podSelector  LabelSelector  +
    2  ingress      []NetworkPolicyIngressRule
    3  egress       []NetworkPolicyEgressRule
    4  policyTypes  []PolicyType

NetworkPolicyIngressRule:
    1  ports  []NetworkPolicyPort
    2  from   []NetworkPolicyPeer

NetworkPolicyEgressRule:
    1  ports  []NetworkPolicyPort
    2  to     []NetworkPolicyPeer

NetworkPolicyPort:
    1  protocol  *core.Protocol
    2  port      *intstr
    3  endPort   *int32

NetworkPolicyPeer:
    1  podSelector        *LabelSelector
    2  namespaceSelector  *LabelSelector
    3  ipBlock            *IPBlock

IPBlock:
    1  cidr    str  !
    2  except  []str

kind IPAddress:
    2  spec  IPAddressSpec

IPAddressSpec:
    1  parentRef  *ParentReference

ParentReference:
    1  group      str
    2  resource   str
    3  namespace  str
    4  name       str

kind ServiceCIDR:
    2  spec    ServiceCIDRSpec
    3  status  ServiceCIDRStatus

ServiceCIDRSpec:
    1  cidrs  []str

ServiceCIDRStatus:
    1  conditions  []Condition  keys=type merge=type
"""
